package api

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// query returns the parameters of the request's query, of those that are known,
// each at most once.
func query(r *http.Request, known ...string) (map[string]string, []FieldError) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, []FieldError{{Field: "query", Value: r.URL.RawQuery, Reason: "is not in the form name=value&name=value"}}
	}
	found := map[string]string{}
	var faults []FieldError
	for name, all := range values {
		switch {
		case !slices.Contains(known, name):
			faults = append(faults, FieldError{Field: name, Value: all[0], Reason: "unknown parameter: want " + strings.Join(known, ", ")})
		case len(all) > 1:
			faults = append(faults, FieldError{Field: name, Value: all[1], Reason: "is there already"})
		default:
			found[name] = all[0]
		}
	}
	slices.SortFunc(faults, func(a, b FieldError) int { return strings.Compare(a.Field, b.Field) })
	return found, faults
}
