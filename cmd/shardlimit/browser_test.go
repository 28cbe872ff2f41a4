//go:build e2e

package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"
)

// browser is a tab of a headless Chromium.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu     sync.Mutex
	faults []string // what the browser complained of
}

// openBrowser starts a browser, which ends with the test. The test is skipped
// where there is none, unless it must not be.
func openBrowser(t *testing.T) *browser {
	t.Helper()
	needs(t, "chromium")
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath("chromium"), chromedp.WindowSize(1280, 1360))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // as root it has none
	}
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &browser{t: t, ctx: ctx}
	b.do(chromedp.Navigate("about:blank"))
	go b.hear()
	return b
}

// hear notes what the browser complains of until it ends, such as what the page's
// security policy forbids.
func (b *browser) hear() {
	for message, err := range chromedp.Console(b.ctx) {
		if err != nil {
			return
		}
		if message.IsException() || message.Type == chromedp.ConsoleError {
			b.mu.Lock()
			b.faults = append(b.faults, message.String())
			b.mu.Unlock()
		}
	}
}

// complaints returns all of them.
func (b *browser) complaints() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.faults
}

// do ends the test unless the browser does all of it.
func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatalf("%v\n%v", err, b.complaints())
	}
}

// command ends the test unless the browser obeys.
func command[P, R any](b *browser, c cdp.Command[P, R], params P) R {
	b.t.Helper()
	result, err := chromedp.Call(b.ctx, c, params)
	if err != nil {
		b.t.Fatal(err)
	}
	return result
}

// eval returns what an expression of JavaScript is on the page.
func eval[T any](b *browser, expression string) T {
	b.t.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// soon is how long a page may take to become what a test waits for, on a
// machine that is busy.
const soon = 40 * time.Second

// becomes waits until the expression holds on the page.
func (b *browser) becomes(expression string, args ...any) {
	b.t.Helper()
	if len(args) > 0 {
		expression = fmt.Sprintf(expression, args...)
	}
	ctx, cancel := context.WithTimeout(b.ctx, soon)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		holds, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("Boolean("+expression+")"))
		if holds {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			b.t.Fatalf("not %s (%v); the page says\n%s\n%v", expression, err, eval[string](b, "document.body.innerText"), b.complaints())
		}
	}
}
