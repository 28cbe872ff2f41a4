// Package answer shows a decision to people and to scripts.
package answer

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/shardlimit/shardlimit"
)

// Decision is one, in the words of the daemon's API.
type Decision struct {
	Policy       string `json:"policy"`
	Allowed      bool   `json:"allowed"`
	Granted      int64  `json:"granted"`
	Limit        string `json:"limit"` // the one that binds
	Remaining    int64  `json:"remaining"`
	RetryAfterUS int64  `json:"retry_after_us"`
	ResetAfterUS int64  `json:"reset_after_us"`
	Source       string `json:"source"`
	Shadowed     bool   `json:"shadowed,omitempty"` // it would have been denied
	Failure      string `json:"failure,omitempty"`  // why the failure mode decided
}

// Of returns a result of a policy as a Decision.
func Of(p *shardlimit.Policy, r shardlimit.Result) Decision {
	d := Decision{
		Policy: p.Name(), Allowed: r.Allowed, Granted: r.Granted, Limit: r.Limit.String(), Remaining: r.Remaining,
		RetryAfterUS: r.RetryAfter.Microseconds(), ResetAfterUS: r.ResetAfter.Microseconds(), Source: r.Source.String(),
		Shadowed: r.Shadowed,
	}
	if r.Failure != nil {
		d.Failure = r.Failure.Error()
	}
	return d
}

// Text writes the decision as a line for each of its figures.
func (d Decision) Text(w io.Writer) error {
	verdict := "denied"
	if d.Allowed {
		verdict = "allowed"
	}
	text := fmt.Sprintf("%s by %s\nlimit        %s\ngranted      %d\nremaining    %d\nretry after  %v\nreset after  %v\n",
		verdict, d.Source, d.Limit, d.Granted, d.Remaining, micros(d.RetryAfterUS), micros(d.ResetAfterUS))
	if d.Failure != "" {
		text += "failure      " + d.Failure + "\n"
	}
	_, err := io.WriteString(w, text)
	return err
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// JSON writes the decision as an object.
func (d Decision) JSON(w io.Writer) error { return json.NewEncoder(w).Encode(d) }
