package config

import (
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/rules"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/yamldoc"
)

// readDocument reads all of it.
func readDocument(r *reader, c *Config, n ast.Node) {
	if n == nil {
		r.Fault(nil, "policies", "must name at least one policy")
		return
	}
	var set ruleNodes
	var authorize place
	r.Mapping("", n, map[string]field{
		"listen":           c.Server.Listen.read,
		"admin_token_file": text(&c.Server.AdminTokenFile),
		"log":              c.Server.Log.read,
		"redis":            c.Server.Redis.read,
		"timeout":          duration(&c.Server.Timeout),
		"subject_key_file": text(&c.Server.SubjectKeyFile),
		"breaker":          c.Server.readBreaker,
		"envoy":            readEnvoy(c),
		"authorize":        func(_ *reader, at string, n ast.Node) { authorize = place{n, at} },
		"policies":         func(_ *reader, _ string, n ast.Node) { set.policies = n },
		"overrides":        func(_ *reader, _ string, n ast.Node) { set.overrides = n },
	})
	c.Rules = readRules(r, set, c.Server.EnvoyPath == "")
	if authorize.node != nil {
		c.Authorize.read(r, authorize, c.Rules)
	}
}

func (l *Listen) read(r *reader, at string, n ast.Node) {
	r.Mapping(at, n, map[string]field{
		"public":       address(&l.Public),
		"admin":        address(&l.Admin),
		"admin_hosts":  forms(&l.AdminHosts, hostForm),
		"envoy":        address(&l.Envoy),
		"read_timeout": duration(&l.ReadTimeout),
	})
}

func (l *Log) read(r *reader, at string, n ast.Node) {
	r.Mapping(at, n, map[string]field{
		"format": word(&l.Format, "text", "json"),
		"level":  word(&l.Level, "debug", "info", "warn", "error"),
	})
}

func (d *Redis) read(r *reader, at string, n ast.Node) {
	var list place
	r.Mapping(at, n, map[string]field{
		"nodes":         list.note(nodes(&d.Nodes)),
		"single":        yamldoc.Boolean(&d.Single),
		"prefix":        form(&d.Prefix, prefixForm),
		"user":          text(&d.User),
		"password_file": text(&d.PasswordFile),
		"tls":           d.TLS.read,
	})
	begin := func(scheme string) bool {
		return slices.ContainsFunc(d.Nodes, func(n string) bool { return strings.HasPrefix(n, scheme) })
	}
	if begin("redis://") && begin("rediss://") {
		r.Fault(list.node, list.name, "must not have redis:// and rediss:// side by side: TLS is spoken to all, or to none")
	}
	if d.Single && len(d.Nodes) != 1 {
		r.Fault(n, at, "must have one of nodes where it is single, and has %d", len(d.Nodes))
	}
}

func (t *TLS) read(r *reader, at string, n ast.Node) {
	r.Mapping(at, n, map[string]field{
		"ca_file":     text(&t.CAFile),
		"cert_file":   text(&t.CertFile),
		"key_file":    text(&t.KeyFile),
		"server_name": text(&t.ServerName),
	})
	if (t.CertFile == "") != (t.KeyFile == "") {
		r.Fault(n, at, "must have both of cert_file and key_file, or neither")
	}
}

func (s *Server) readBreaker(r *reader, at string, n ast.Node) {
	b := &s.Breaker
	r.Mapping(at, n, map[string]field{
		"failure_ratio":  fraction(&b.FailureRatio),
		"min_calls":      number(&b.MinCalls, 1, 1_000_000),
		"window":         duration(&b.Window),
		"probe_interval": duration(&b.ProbeInterval),
		"disabled":       yamldoc.Boolean(&b.Disabled),
	})
}

// read reads what a proxy asks, of the policies in set.
func (a *Authorize) read(r *reader, p place, set *rules.Set) {
	r.Mapping(p.name, p.node, map[string]field{
		"policy": func(r *reader, at string, n ast.Node) {
			text(&a.Policy)(r, at, n)
			if a.Policy != "" && set.Policy(a.Policy) == nil {
				r.Fault(n, at, "%q is none of the policies, or one at fault", a.Policy)
			}
		},
		"policy_header":   form(&a.PolicyHeader, headerForm),
		"subject_headers": forms(&a.SubjectHeaders, headerForm),
		"denied_status":   number(&a.DeniedStatus, 400, 499),
	})
}

var (
	prefixForm = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,64}$`) // as the library checks it
	hostForm   = regexp.MustCompile(`^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)$`)
	headerForm = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
)

// IsPrefix reports whether keys may begin so.
func IsPrefix(s string) bool { return prefixForm.MatchString(s) }

// address reads an address to listen on.
func address(to *string) field {
	return func(r *reader, at string, n ast.Node) {
		s, ok := r.Scalar(at, n)
		if !ok {
			return
		}
		if s != "" && !IsAddress(s) {
			r.Fault(n, at, "%q must be host:port or :port", s)
			return
		}
		*to = s
	}
}

// IsAddress reports whether s is host:port, or :port alone.
func IsAddress(s string) bool {
	_, port, err := net.SplitHostPort(s)
	return err == nil && isPort(port)
}

func isPort(s string) bool {
	_, err := strconv.ParseUint(s, 10, 16)
	return err == nil
}

// nodes reads addresses of Redis.
func nodes(to *[]string) field {
	return func(r *reader, at string, n ast.Node) {
		for i, item := range r.Items(at, n) {
			at := fmt.Sprintf("%s[%d]", at, i)
			if s, ok := r.Scalar(at, item); ok {
				*to = append(*to, s)
				if !IsNode(s) {
					r.Fault(item, at, "must be host:port, or a redis:// or rediss:// URL of a host and a port")
				}
			}
		}
	}
}

// IsNode reports whether s is host:port, or the URL of one. A fault doesn't
// show what it is: there may be a password in it.
func IsNode(s string) bool {
	if IsAddress(s) {
		return !strings.Contains(s, "@") && !strings.HasPrefix(s, ":")
	}
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "redis" || u.Scheme == "rediss") && u.Hostname() != "" &&
		(u.Port() == "" || isPort(u.Port())) && (u.Path == "" || u.Path == "/") && u.RawQuery == ""
}
