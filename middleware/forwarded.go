package middleware

import (
	"iter"
	"net/netip"
	"slices"
	"strings"
)

// nodes yields who is named in the values of a header field, from the right:
// what is to the left of a name may be of anybody's writing, so nothing there
// must change how the name is read.
type nodes func(field []string) iter.Seq[string]

// nodesOf returns how the header field is read, nil if it's none that names
// clients.
func nodesOf(header string) nodes {
	switch header {
	case "X-Forwarded-For":
		return xForwardedFor
	case "Forwarded":
		return forwarded
	default:
		return nil
	}
}

func xForwardedFor(field []string) iter.Seq[string] {
	return elements(field, func(line string) int { return strings.LastIndexByte(line, ',') })
}

func forwarded(field []string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for element := range elements(field, func(line string) int { return lastOutside(line, ',') }) {
			if !yield(forOf(element)) {
				return
			}
		}
	}
}

// elements yields the elements of a list, from the right, where last returns
// the index of a line's last comma. Empty ones are none (RFC 9110, 5.6.1).
func elements(field []string, last func(line string) int) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, line := range slices.Backward(field) {
			for line != "" {
				at := last(line)
				element := strings.Trim(line[at+1:], " \t")
				line = line[:max(at, 0)]
				if element != "" && !yield(element) {
					return
				}
			}
		}
	}
}

// lastOutside returns the index of the last separator in s that isn't within
// quotes, counted from the right; -1 if there is none.
func lastOutside(s string, separator byte) int {
	quoted := false
	for i := len(s) - 1; i >= 0; i-- {
		switch {
		case s[i] == '"' && !escaped(s[:i]):
			quoted = !quoted
		case s[i] == separator && !quoted:
			return i
		}
	}
	return -1
}

// escaped reports whether what follows s is escaped by its end.
func escaped(s string) bool {
	return (len(s)-len(strings.TrimRight(s, `\`)))%2 == 1
}

// forOf returns the node that an element of Forwarded says was asked for, ""
// if it says none, or more than one.
func forOf(element string) string {
	node := ""
	for element != "" {
		at := lastOutside(element, ';')
		name, value, _ := strings.Cut(strings.Trim(element[at+1:], " \t"), "=")
		element = element[:max(at, 0)]
		if !strings.EqualFold(name, "for") {
			continue
		}
		if node != "" {
			return ""
		}
		node = unquote(value)
	}
	return node
}

// unquote returns what a token or a quoted string says. An address needs no
// escapes, so a string that has some is returned as it is: it is none.
func unquote(s string) string {
	if inner, ok := strings.CutPrefix(s, `"`); ok {
		if inner, ok = strings.CutSuffix(inner, `"`); ok {
			return inner
		}
	}
	return s
}

// parseNode returns the address of a node, with or without a port, and of IPv6
// with or without brackets. It is the zero Addr if there is none, as of
// "unknown" and "_hidden".
func parseNode(s string) netip.Addr {
	if withPort, err := netip.ParseAddrPort(s); err == nil {
		return plain(withPort.Addr())
	}
	if inner, ok := strings.CutPrefix(s, "["); ok {
		if s, ok = strings.CutSuffix(inner, "]"); !ok || !strings.Contains(s, ":") {
			return netip.Addr{} // brackets stand round IPv6 alone
		}
	}
	addr, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Addr{}
	}
	return plain(addr)
}

// plain returns the address that tells a client: IPv4 within IPv6 is IPv4, and
// a zone is only known here.
func plain(addr netip.Addr) netip.Addr { return addr.Unmap().WithZone("") }
