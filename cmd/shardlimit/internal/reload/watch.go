package reload

import (
	"context"
	"errors"
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

// Watch reads the files again when one changes, and each time that a signal
// comes, until ctx ends. It watches their folders, as editors put a new file in
// the old one's place, and Kubernetes moves a link that the file's own link goes
// by.
//
// Where a folder can't be watched it says so in the log, and obeys signals. log
// and told are Reload's.
func (f *File) Watch(ctx context.Context, log *slog.Logger, told func(Status), signals <-chan os.Signal) {
	w, err := fsnotify.NewWatcher()
	if err == nil {
		defer func() { _ = w.Close() }() // it has nothing to lose
		err = f.watchFolders(w)
	} else {
		w = &fsnotify.Watcher{} // of which nothing ever comes
	}
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
		case <-w.Events:
			soon()
		case err := <-w.Errors: // events may have been lost
			log.LogAttrs(ctx, slog.LevelWarn, "configuration watch", slog.Any("cause", err))
			soon()
		case <-signals:
			f.Reload(ctx, log, told)
		case <-due:
			due = nil
			_ = f.watchFolders(w) // a link may lead to another folder now
			f.Reload(ctx, log, told)
		}
	}
}

// watchFolders watches all folders that a change of the configuration shows in.
// Those that are watched already stay so.
func (f *File) watchFolders(w *fsnotify.Watcher) error {
	var all error
	for _, folder := range f.folders() {
		if err := w.Add(folder); err != nil {
			all = errors.Join(all, fmt.Errorf("reload: watch %s: %w", folder, err))
		}
	}
	return all
}

// folders returns those that the files are in, and those that links lead to. A
// folder of files is watched itself, and so is the one that it is in, where a
// link may be put in its place.
func (f *File) folders() []string {
	var all []string
	for _, path := range []string{f.source.Path, f.started.EnvoyPath} {
		if path == "" {
			continue
		}
		all = append(all, filepath.Dir(path))
		if file, err := filepath.EvalSymlinks(path); err == nil {
			all = append(all, filepath.Dir(file))
		}
	}
	if info, err := os.Stat(f.started.EnvoyPath); err == nil && info.IsDir() {
		all = append(all, f.started.EnvoyPath)
	}
	return all
}
