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

// settle is how long after a change the file is read: what writes it may do so
// in steps. Changes meanwhile are read then too, and later ones once more.
const settle = 50 * time.Millisecond

// Watch reads the file again when it changes, and each time that a signal comes,
// until ctx ends. It watches the folder, as editors put a new file in the old
// one's place, and Kubernetes moves a link that the file's own link goes by.
//
// Where the folder can't be watched it says so in the log, and obeys signals. log
// and told are Reload's.
func (f *File) Watch(ctx context.Context, log *slog.Logger, told func(Status), signals <-chan os.Signal) {
	events, failed, closeWatcher, err := f.events()
	defer closeWatcher()
	if err != nil {
		log.LogAttrs(ctx, slog.LevelWarn, "configuration is not watched: send SIGHUP after a change", slog.Any("cause", err))
	}
	due := time.After(settle) // for what changed before the watch began
	soon := func() {
		if due == nil {
			due = time.After(settle)
		}
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-events:
			soon()
		case err := <-failed: // events may have been lost
			log.LogAttrs(ctx, slog.LevelWarn, "configuration watch", slog.Any("cause", err))
			soon()
		case <-signals:
			f.Reload(ctx, log, told)
		case <-due:
			due = nil
			f.Reload(ctx, log, told)
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
