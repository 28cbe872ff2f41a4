// Package page shows an operator in a browser how a daemon fares: shards and
// breakers, who decides, the hottest subjects, policies, what has changed.
//
// The page is made here and works without scripts; with them it stays up to
// date. It changes nothing, and takes nothing from elsewhere.
package page

import (
	"embed"
	"html/template"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/config"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/reload"
)

// Options are what a Page is made of.
type Options struct {
	Record  *Record
	Inspect func() shardlimit.Snapshot
	Config  func() *config.Config // what holds now
	Status  func() reload.Status  // of the configuration
	Token   string                // who knows it may look; "": everybody may
	Name    string                // of the daemon, for a reader of many
}

// Page is the handlers of one daemon's page. It is safe for concurrent use. New
// makes one; the zero Page is useless.
type Page struct {
	Options
	door    door
	started time.Time
}

// New returns the page that o describes.
func New(o Options) *Page { return &Page{Options: o, door: newDoor(o.Token), started: time.Now()} }

//go:embed files
var files embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"figure": figure, "rate": rate, "span": span, "visible": visible,
}).ParseFS(files, "files/*.html"))

// Before returns the page's routes, and rest for all others: "/", and what is
// below "/page/". It refuses no form of another site's page: the listener does,
// for all of its routes (api.API.Guard).
func (p *Page) Before(rest http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", rest)
	mux.HandleFunc("GET /{$}", p.show)
	mux.HandleFunc("POST /page/enter", guarded(p.enter))
	mux.HandleFunc("POST /page/leave", guarded(p.leave))
	for path, kind := range map[string]string{
		"style.css": "text/css; charset=utf-8", "live.js": "text/javascript; charset=utf-8", "icon.svg": "image/svg+xml",
	} {
		mux.HandleFunc("GET /page/"+path, asset(path, kind))
	}
	return mux
}

// show answers with the page, or with the form where the reader must enter first.
func (p *Page) show(w http.ResponseWriter, r *http.Request) {
	if !p.door.open(r) {
		p.ask(w, "")
		return
	}
	write(w, http.StatusOK, "page.html", p.view(time.Now()))
}

// write answers with a template.
func write(w http.ResponseWriter, status int, name string, data any) {
	var text strings.Builder
	if err := templates.ExecuteTemplate(&text, name, data); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	guard(w.Header())
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text.String()) // who has left needs no answer
}

// guard forbids the browser all that the page doesn't need: whatever a subject's
// name did to it, nothing would run, and nothing be fetched from elsewhere.
func guard(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "+
		"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "same-origin") // with none, browsers hide where a form comes from
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
}

func guarded(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		guard(w.Header())
		h(w, r)
	}
}

// asset returns the handler of a file that everybody may have.
func asset(name, kind string) http.HandlerFunc {
	text, err := files.ReadFile("files/" + name)
	if err != nil {
		panic(err) // it's embedded
	}
	return guarded(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(text) // who has left needs no answer
	})
}
