package config

import (
	"github.com/goccy/go-yaml/ast"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/yamldoc"
)

// readEnvoy reads what Envoy is answered.
func readEnvoy(c *Config) field {
	return func(r *reader, at string, n ast.Node) {
		e := &c.Envoy
		r.Mapping(at, n, map[string]field{
			"config":        text(&c.Server.EnvoyPath),
			"algorithm":     algorithm(&e.Settings.Algorithm),
			"on_failure":    e.readOnFailure,
			"timeout":       duration(&e.Settings.Timeout),
			"leases":        leaseMode(&e.Settings.Leases),
			"headers":       word(&e.Headers, "none", "draft", "reference"),
			"shadow_mode":   yamldoc.Boolean(&e.Shadow),
			"merge_domains": yamldoc.Boolean(&e.Settings.Merge),
		})
	}
}

// readOnFailure reads who decides where Redis can't.
func (e *Envoy) readOnFailure(r *reader, at string, n ast.Node) {
	if s, ok := n.(*ast.StringNode); ok && s.Value == "envoy" {
		e.HandOver = true
		return
	}
	e.HandOver = false
	failureMode(&e.Settings.OnFailure)(r, at, n)
}

// algorithms are all that there are.
var algorithms = []shardlimit.Algorithm{
	shardlimit.FixedWindow, shardlimit.SlidingWindow, shardlimit.SlidingLog, shardlimit.TokenBucket, shardlimit.GCRA,
}

// algorithm reads the name of one.
func algorithm(to *shardlimit.Algorithm) field {
	return func(r *reader, at string, n ast.Node) {
		var names []string
		for _, a := range algorithms {
			names = append(names, a.String())
		}
		var name string
		word(&name, names...)(r, at, n)
		for _, a := range algorithms {
			if a.String() == name {
				*to = a
			}
		}
	}
}
