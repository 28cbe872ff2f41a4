package rediscluster

import (
	"context"
	"strconv"
	"strings"
	"time"
)

// CPU returns the CPU time that all nodes have used, primaries and replicas.
func (c *Cluster) CPU(ctx context.Context) (time.Duration, error) {
	var sum float64
	for _, n := range c.Nodes() {
		info, err := n.Client().Info(ctx, "cpu").Result()
		if err != nil {
			return 0, err
		}
		for _, field := range []string{"used_cpu_sys:", "used_cpu_user:"} {
			_, rest, _ := strings.Cut(info, field)
			text, _, _ := strings.Cut(rest, "\r\n")
			seconds, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return 0, err
			}
			sum += seconds
		}
	}
	return time.Duration(sum * float64(time.Second)), nil
}
