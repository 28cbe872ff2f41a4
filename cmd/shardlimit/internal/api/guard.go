package api

import (
	"net"
	"net/http"
	"slices"
	"strings"
)

// Guard stands before all of the admin listener, so that no web page uses a
// browser on this machine to reach it: one of another site sends nothing that
// changes anything, and one whose name was made to lead here (DNS rebinding)
// reads nothing. That one has its own name as the Host, which is refused where no
// token is asked for: it has none to show.
func (a *API) Guard(h http.Handler) http.Handler {
	own := http.NewCrossOriginProtection()
	own.SetDenyHandler(http.HandlerFunc(crossOrigin))
	h = own.Handler(h)
	if a.Token != "" {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name := hostname(r.Host); !isLoopback(name) && !slices.ContainsFunc(a.AdminHosts, func(known string) bool {
			return hostname(known) == name
		}) {
			foreignHost(w, r)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// hostname returns the name or address of a Host field, without its port.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}

// isLoopback reports whether nobody but this machine has the name or address.
func isLoopback(name string) bool {
	ip := net.ParseIP(name)
	return name == "localhost" || strings.HasSuffix(name, ".localhost") || ip.IsLoopback()
}

func crossOrigin(w http.ResponseWriter, r *http.Request) {
	problem(http.StatusForbidden, "cross-origin", "This takes no requests of other sites' pages.", r.Header.Get("Origin")).write(w)
}

func foreignHost(w http.ResponseWriter, r *http.Request) {
	problem(http.StatusForbidden, "foreign-host", "This listener has another name.",
		`Host "`+r.Host+`": want a loopback name or address, or one of listen.admin_hosts; or set an admin token`).write(w)
}
