// Package answer shows a decision to people and to scripts.
package answer

import (
	"encoding/json"
	"fmt"
	"io"
	"math"

	"github.com/shardlimit/shardlimit"
)

// Text writes a decision as a line for each of its figures.
func Text(w io.Writer, r shardlimit.Result) error {
	verdict := "denied"
	if r.Allowed {
		verdict = "allowed"
	}
	_, err := fmt.Fprintf(w, "%s by %v\nlimit        %v\ngranted      %d\nremaining    %d\nretry after  %v\nreset after  %v\n",
		verdict, r.Source, r.Limit, r.Granted, r.Remaining, r.RetryAfter, r.ResetAfter)
	return err
}

// JSON writes a decision as an object. Its times are in whole milliseconds,
// rounded up.
func JSON(w io.Writer, r shardlimit.Result) error {
	return json.NewEncoder(w).Encode(struct {
		Allowed    bool             `json:"allowed"`
		Source     string           `json:"source"`
		Limit      shardlimit.Limit `json:"limit"`
		Granted    int64            `json:"granted"`
		Remaining  int64            `json:"remaining"`
		RetryAfter int64            `json:"retry_after_ms"`
		ResetAfter int64            `json:"reset_after_ms"`
	}{
		r.Allowed, r.Source.String(), r.Limit, r.Granted, r.Remaining,
		int64(math.Ceil(r.RetryAfter.Seconds() * 1000)), int64(math.Ceil(r.ResetAfter.Seconds() * 1000)),
	})
}
