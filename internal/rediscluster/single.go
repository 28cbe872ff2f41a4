package rediscluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Single is one server without cluster mode. It has the verbs of a [Node].
type Single struct {
	*Node
	launcher Launcher
	close    func() error
}

// StartSingle starts one server without cluster mode and returns once it
// answers. Of the options, those about clusters have no meaning. The caller
// closes it.
func StartSingle(ctx context.Context, opts Options) (*Single, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("rediscluster: options: %w", err)
	}
	l, err := opts.Launch(ctx, opts)
	if err != nil {
		return nil, fmt.Errorf("rediscluster: %w", err)
	}
	n, err := startNode(ctx, l, opts, opts.singleFlags)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("rediscluster: start: %w", err), l.Close())
	}
	s := &Single{Node: n, launcher: l}
	s.close = sync.OnceValue(func() error { return errors.Join(n.client.Close(), l.Close()) })
	return s, nil
}

// Version returns what the server runs.
func (s *Single) Version() Version { return s.launcher.Version() }

// Close kills the server, waits for it and removes its data. More calls return
// the same.
func (s *Single) Close() error { return s.close() }
