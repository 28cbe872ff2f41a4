// Package reload answers which configuration holds now: the last good one of a
// file that may change at any time.
package reload

import (
	"bytes"
	"context"
	"log/slog"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/config"
)

// File is a configuration that is read anew when its files change. It is safe
// for concurrent use. Open and Fixed make one; the zero File is useless.
type File struct {
	source  config.Source
	started *config.Server // what the server runs with
	now     atomic.Pointer[config.Config]

	mu     sync.Mutex // held while the files are read
	text   []byte     // of the latest try, good or bad
	status Status
}

// Open reads the configuration, which must be right this time. The error is that
// of config.Source.Read.
func Open(source config.Source) (*File, error) {
	c, text, err := source.Read()
	if err != nil {
		return nil, err
	}
	f := Fixed(c)
	f.source, f.text, f.status.Path = source, text, source.Path
	return f, nil
}

// Fixed returns a configuration without files, which stays as it is.
func Fixed(c *config.Config) *File {
	f := &File{started: &c.Server, source: config.Source{Flags: c}}
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

// Reload reads the files if they differ from what was read last. What is wrong
// with them is logged and kept in the Status, and the last good configuration
// holds on. told, unless it is nil, is told the new Status before the log is.
func (f *File) Reload(ctx context.Context, log *slog.Logger, told func(Status)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, text, err := f.source.Read()
	if f.isOldLocked(text, err) {
		return
	}
	f.text = text
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

// isOldLocked reports whether a try that read text and ended in err says nothing
// that the latest one did not.
func (f *File) isOldLocked(text []byte, err error) bool {
	if err != nil {
		return err.Error() == f.status.Fault
	}
	return f.status.Fault == "" && bytes.Equal(text, f.text)
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
