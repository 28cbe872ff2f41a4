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
	launcher launcher
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
	l, err := newProcesses(ctx, opts.Server)
	if err != nil {
		return nil, fmt.Errorf("rediscluster: %w", err)
	}
	n, err := startNode(ctx, l, opts, opts.singleFlags)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("rediscluster: start: %w", err), l.close())
	}
	s := &Single{Node: n, launcher: l}
	s.close = sync.OnceValue(func() error { return errors.Join(n.client.Close(), l.close()) })
	return s, nil
}

// Version returns what the server runs.
func (s *Single) Version() Version { return s.launcher.version() }

// Close kills the server, waits for it and removes its data. More calls return
// the same.
func (s *Single) Close() error { return s.close() }
