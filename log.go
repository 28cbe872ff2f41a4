package shardlimit

import (
	"context"
	"log/slog"

	"github.com/shardlimit/shardlimit/failover"
)

// log writes the line of a change.
func (c *Config) log(e failover.Event) {
	shard := slog.String("shard", e.Shard)
	write := func(level slog.Level, message string, attrs ...slog.Attr) {
		c.Logger.LogAttrs(context.Background(), level, message, attrs...)
	}
	switch e.Kind {
	case failover.Opened:
		write(slog.LevelWarn, "shardlimit: breaker opened", shard, slog.Any("cause", e.Err.Err))
	case failover.Closed:
		write(slog.LevelInfo, "shardlimit: breaker closed", shard, slog.Duration("after", e.Lasted), slog.Bool("gone", e.Gone))
	case failover.FallbackBegan:
		write(slog.LevelWarn, "shardlimit: fallback in use", shard, slog.String("class", e.Err.Class.String()), slog.Any("cause", e.Err.Err))
	case failover.FallbackEnded:
		write(slog.LevelInfo, "shardlimit: fallback no longer in use", shard, slog.Duration("after", e.Lasted), slog.Bool("gone", e.Gone),
			slog.Int64("never_ran", e.Calls.NeverRan), slog.Int64("unknown", e.Calls.Unknown), slog.Int64("open", e.Calls.Open))
	case failover.TopologyChanged:
		write(slog.LevelInfo, "shardlimit: topology changed", slog.Any("shards", e.Shards))
	case failover.Misconfigured:
		write(slog.LevelError, "shardlimit: misconfigured", shard, slog.Any("cause", e.Err.Err))
	}
}
