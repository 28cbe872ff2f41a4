package page

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"net/http"
	"time"
)

// stay is how long a reader who has shown the token may look.
const stay = 12 * time.Hour

// door lets in those who have shown the token. They get a cookie in exchange
// that is good for this page and this process alone, and from which nobody learns
// the token.
type door struct {
	token  string // "": it's always open
	secret []byte // of this process
	cookie string // its name, since browsers share cookies between ports
}

func newDoor(token string) door {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // it never fails
	return door{token, secret, "shardlimit-" + hex.EncodeToString(secret[:4])}
}

// fits reports whether it's the token. How long that takes says nothing of it.
func (d *door) fits(token string) bool {
	got, want := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(d.token))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

// pass returns what lets in until then.
func (d *door) pass(until time.Time) string {
	text := binary.BigEndian.AppendUint64(nil, uint64(until.Unix()))
	return hex.EncodeToString(append(text, d.seal(text)...))
}

func (d *door) seal(text []byte) []byte {
	mac := hmac.New(sha256.New, d.secret)
	mac.Write(text)
	return mac.Sum(nil)
}

// open reports whether who asks may look.
func (d *door) open(r *http.Request) bool {
	if d.token == "" {
		return true
	}
	cookie, err := r.Cookie(d.cookie)
	return err == nil && d.valid(cookie.Value, time.Now())
}

// valid reports whether it's a pass that holds now.
func (d *door) valid(pass string, now time.Time) bool {
	sealed, err := hex.DecodeString(pass)
	if err != nil || len(sealed) != 8+sha256.Size {
		return false
	}
	text, seal := sealed[:8], sealed[8:]
	return hmac.Equal(seal, d.seal(text)) && now.Unix() < int64(binary.BigEndian.Uint64(text))
}

// set gives the browser a pass that holds for so long, or takes it away.
func (d *door) set(w http.ResponseWriter, r *http.Request, pass string, hold time.Duration) {
	http.SetCookie(w, &http.Cookie{
		Name: d.cookie, Value: pass, Path: "/", MaxAge: int(hold / time.Second),
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.Header.Get("X-Forwarded-Proto") == "https",
	})
}

// maxForm is how many bytes a form may have.
const maxForm = 4 << 10

// enter takes the token, and sends who has it to the page.
func (p *Page) enter(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if !p.door.fits(r.PostFormValue("token")) {
		p.ask(w, "That is not the token.")
		return
	}
	p.door.set(w, r, p.door.pass(time.Now().Add(stay)), stay)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// leave takes the pass away.
func (p *Page) leave(w http.ResponseWriter, r *http.Request) {
	p.door.set(w, r, "", -time.Second)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// ask answers with the form that takes the token.
func (p *Page) ask(w http.ResponseWriter, fault string) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="shardlimit"`)
	write(w, http.StatusUnauthorized, "door.html", struct{ Name, Fault string }{p.Name, fault})
}
