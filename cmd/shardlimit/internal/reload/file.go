// Package reload answers which configuration holds now: the last good one of a
// file that may change at any time.
package reload

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/config"
)

// File is a configuration that is read anew when its file changes. It is safe
// for concurrent use. Open and Fixed make one; the zero File is useless.
type File struct {
	path    string
	started *config.Server // what the server runs with
	now     atomic.Pointer[config.Config]

	mu     sync.Mutex // held while the file is read
	text   []byte     // of the latest try, good or bad
	status Status
}

// Open reads the file at path, which must be right this time. The error is that
// of config.Load.
func Open(path string) (*File, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c, err := config.Parse(path, text)
	if err != nil {
		return nil, err
	}
	f := Fixed(c)
	f.path, f.text, f.status.Path = path, text, path
	return f, nil
}

// Fixed returns a configuration without a file, which stays as it is.
func Fixed(c *config.Config) *File {
	f := &File{started: &c.Server}
	f.now.Store(c)
	f.status = Status{Generation: 1, Since: time.Now()}
	return f
}

// Now returns the configuration that holds now.
func (f *File) Now() *config.Config { return f.now.Load() }

// Status returns how it came to be.
func (f *File) Status() Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.status
}

// Reload reads the file if it differs from what was read last. What is wrong
// with it is logged and kept in the Status, and the last good configuration
// holds on. told, unless it is nil, is told the new Status before the log is.
func (f *File) Reload(ctx context.Context, log *slog.Logger, told func(Status)) {
	if f.path == "" {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	text, err := os.ReadFile(f.path)
	if err == nil && f.text != nil && bytes.Equal(text, f.text) {
		return
	}
	f.text = text
	var c *config.Config
	if err == nil {
		c, err = config.Parse(f.path, text)
	}
	if err != nil && err.Error() == f.status.Fault {
		return
	}
	if err == nil {
		f.takeLocked(c)
	} else {
		f.refuseLocked(err)
	}
	if told != nil {
		told(f.status)
	}
	f.status.log(ctx, log, err)
}

// takeLocked makes c the configuration.
func (f *File) takeLocked(c *config.Config) {
	f.now.Store(c)
	f.status.Generation++
	f.status.Since = time.Now()
	f.status.Fault, f.status.FaultAt = "", nil
	f.status.Restart = !reflect.DeepEqual(*f.started, c.Server)
}

// refuseLocked keeps the last good configuration.
func (f *File) refuseLocked(err error) {
	now := time.Now()
	f.status.Fault, f.status.FaultAt = err.Error(), &now
}
