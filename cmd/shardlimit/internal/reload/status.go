package reload

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/yamldoc"
)

// Status is how a configuration came to be what it is. It is plain data, also
// as JSON.
type Status struct {
	Path string `json:"path,omitempty"` // of the file; "" where there is none
	// Generation counts the configurations that were taken, the first being 1.
	Generation int64     `json:"generation"`
	Since      time.Time `json:"since"` // that the present one holds
	// Fault is why the file that is there now was not taken, and the last good
	// one still holds; "" where it was.
	Fault   string     `json:"fault,omitempty"`
	FaultAt *time.Time `json:"fault_at,omitempty"`
	// Restart says that the file has changes that take a restart.
	Restart bool `json:"restart_needed"`
}

// log writes the lines of a try that ended so, with err if the file was refused.
func (s *Status) log(ctx context.Context, log *slog.Logger, err error) {
	faults, wrong := errors.AsType[yamldoc.FileError](err)
	switch {
	case wrong:
		for _, fault := range faults {
			log.LogAttrs(ctx, slog.LevelError, "configuration fault: the last good one holds", slog.String("fault", fault.String()))
		}
	case err != nil:
		log.LogAttrs(ctx, slog.LevelError, "configuration can't be read: the last good one holds", slog.Any("cause", err))
	default:
		log.LogAttrs(ctx, slog.LevelInfo, "configuration reloaded", slog.Int64("generation", s.Generation))
		if s.Restart {
			log.LogAttrs(ctx, slog.LevelWarn, "configuration: changes of listeners, log, Redis, timeout or breaker take a restart")
		}
	}
}
