package middleware

import (
	"net/http"
	"strings"
)

// Subject returns whom a request is counted for, or "" if it doesn't say. The
// subjects of this package begin with their kind, so that no API key passes for
// an address: "key:", "addr:", "path:".
type Subject func(*http.Request) string

// APIKey returns a Subject that is the value of a header field, "key:" before
// it. Keys should have been checked before they are counted: who makes up a new
// one for each request is a new subject each time. They are part of keys in
// Redis unless [shardlimit.Config.SubjectKey] hides them.
//
// [shardlimit.Config.SubjectKey]: https://pkg.go.dev/github.com/shardlimit/shardlimit#Config
func APIKey(header string) Subject {
	return func(r *http.Request) string { return kind("key:", r.Header.Get(header)) }
}

// Path is a Subject that is the path of the request, "path:" before it: a limit
// for each page. Joined with who asks, it is one for each page and client. As
// clients choose paths, it belongs where a router has let the request in.
func Path(r *http.Request) string { return kind("path:", r.URL.Path) }

func kind(name, value string) string {
	if value == "" {
		return ""
	}
	return name + value
}

// Join returns a Subject of all parts, each of which must say something. No two
// different lists of parts are the same subject.
func Join(parts ...Subject) Subject {
	return func(r *http.Request) string {
		names := make([]string, len(parts))
		for i, part := range parts {
			names[i] = part(r)
			if names[i] == "" {
				return ""
			}
			names[i] = joint.Replace(names[i])
		}
		return strings.Join(names, "|")
	}
}

// joint keeps parts from holding what joins them.
var joint = strings.NewReplacer("%", "%25", "|", "%7C")

// FirstOf returns a Subject that is the first of choices to say something: by
// API key, and by address who has none.
func FirstOf(choices ...Subject) Subject {
	return func(r *http.Request) string {
		for _, choice := range choices {
			if s := choice(r); s != "" {
				return s
			}
		}
		return ""
	}
}
