// Package remote asks a running daemon, by its HTTP API.
package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/answer"
)

// Daemon is one, by the URL of its listener: the public one for Check, the
// admin's for the others.
type Daemon struct {
	URL   string
	Token string // the admin's; "": none is wanted
}

// request is the body of a question about a subject.
type request struct {
	Policy  string `json:"policy"`
	Subject string `json:"subject,omitempty"`
	Raw     []byte `json:"subject_base64,omitempty"` // of a subject that is no UTF-8
	Cost    int64  `json:"cost,omitempty"`
}

func about(policy, subject string, cost int64) request {
	r := request{Policy: policy, Cost: cost}
	if utf8.ValidString(subject) {
		r.Subject = subject
	} else {
		r.Raw = []byte(subject)
	}
	return r
}

// Check decides about a request of cost units, and charges it.
func (d *Daemon) Check(ctx context.Context, policy, subject string, cost int64) (answer.Decision, error) {
	var decision answer.Decision
	err := d.post(ctx, "v1/check", about(policy, subject, cost), &decision)
	return decision, err
}

// Inspect returns what a check of one unit would say.
func (d *Daemon) Inspect(ctx context.Context, policy, subject string) (answer.Decision, error) {
	var inspection struct {
		Subject struct {
			Peek answer.Decision `json:"peek"`
		} `json:"subject"`
	}
	query := url.Values{"policy": {policy}, "subject": {subject}}
	err := d.do(ctx, http.MethodGet, "v1/inspect?"+query.Encode(), nil, &inspection)
	return inspection.Subject.Peek, err
}

// Reset forgets what the subject has used.
func (d *Daemon) Reset(ctx context.Context, policy, subject string) error {
	return d.post(ctx, "v1/reset", about(policy, subject, 0), nil)
}

// Healthy returns nil if the daemon runs.
func (d *Daemon) Healthy(ctx context.Context) error {
	return d.do(ctx, http.MethodGet, "healthz", nil, nil)
}

// Ready returns nil if the daemon can decide, or why it can't.
func (d *Daemon) Ready(ctx context.Context) error {
	return d.do(ctx, http.MethodGet, "readyz", nil, nil)
}

func (d *Daemon) post(ctx context.Context, path string, body request, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return d.do(ctx, http.MethodPost, path, text, into)
}

// do sends a request, and reads the answer into what into points to, if there
// is one.
func (d *Daemon) do(ctx context.Context, method, path string, body []byte, into any) (err error) {
	base, err := url.Parse(d.URL)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" {
		return errors.New("--daemon: want an http:// or https:// URL")
	}
	req, err := http.NewRequestWithContext(ctx, method, base.JoinPath("/").String()+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if d.Token != "" {
		req.Header.Set("Authorization", "Bearer "+d.Token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	switch {
	case resp.StatusCode >= http.StatusBadRequest:
		return problem(resp)
	case into == nil:
		return nil
	default:
		return json.NewDecoder(resp.Body).Decode(into)
	}
}

// longest is how much of an answer is read that isn't one of the daemon's.
const longest = 1 << 20

// problem returns what a daemon says is wrong.
func problem(resp *http.Response) error {
	var p struct {
		Title, Detail string
		Errors        []struct{ Field, Reason string }
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, longest)).Decode(&p); err != nil {
		return fmt.Errorf("the daemon answers %s", resp.Status)
	}
	parts := []string{p.Title}
	if p.Detail != "" {
		parts = append(parts, p.Detail)
	}
	for _, e := range p.Errors {
		parts = append(parts, e.Field+" "+e.Reason)
	}
	return fmt.Errorf("the daemon answers %s: %s", resp.Status, strings.Join(parts, "; "))
}
