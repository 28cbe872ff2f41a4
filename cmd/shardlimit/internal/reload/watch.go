package reload

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// settle is how long the folder must be quiet before the file is read: what
// writes it may do so in steps.
const settle = 50 * time.Millisecond

// Watch reads the file again when it changes, and each time that a signal comes,
// until ctx ends. It watches the folder, as editors put a new file in the old
// one's place, and Kubernetes moves a link that the file's own link goes by.
//
// The error is that the folder can't be watched; signals are obeyed even then.
func (f *File) Watch(ctx context.Context, signals <-chan os.Signal) error {
	events, failed, closeWatcher, err := f.events()
	defer closeWatcher()
	if err != nil {
		f.log.LogAttrs(ctx, slog.LevelWarn, "configuration is not watched: send SIGHUP after a change", slog.Any("cause", err))
	}
	quiet := time.NewTimer(settle) // for what changed before the watch began
	defer quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return err
		case <-events:
			quiet.Reset(settle)
		case <-failed: // events may have been lost
			quiet.Reset(settle)
		case <-signals:
			f.Reload(ctx)
		case <-quiet.C:
			f.Reload(ctx)
		}
	}
}

// events returns what happens in the folder. Where there is no file, or it
// can't be watched, nothing ever does.
func (f *File) events() (events <-chan fsnotify.Event, failed <-chan error, closeIt func(), err error) {
	nothing := func() {}
	if f.path == "" {
		return nil, nil, nothing, nil
	}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, nil, nothing, fmt.Errorf("reload: %w", err)
	}
	closeIt = func() { _ = w.Close() } // it has nothing to lose
	if err := w.Add(filepath.Dir(f.path)); err != nil {
		return nil, nil, closeIt, fmt.Errorf("reload: watch: %w", err)
	}
	return w.Events, w.Errors, closeIt, nil
}
