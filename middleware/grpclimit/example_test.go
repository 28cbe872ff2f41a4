package grpclimit_test

import (
	"fmt"
	"log"

	"google.golang.org/grpc"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/middleware"
	"github.com/shardlimit/shardlimit/middleware/grpclimit"
)

func ExampleNew() {
	limiter, err := shardlimit.NewLocal(shardlimit.Config{}) // or Open, for a Redis Cluster
	if err != nil {
		log.Fatal(err)
	}
	limit, err := grpclimit.New(grpclimit.Config{
		Limiter: limiter,
		Policy: grpclimit.Always(shardlimit.MustPolicy(shardlimit.PolicyConfig{
			Name: "api", Limits: []shardlimit.Limit{shardlimit.PerSecond(100)},
		})),
		Subject: grpclimit.HTTP(middleware.APIKey("x-api-key")),
	})
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(limit.Unary), grpc.ChainStreamInterceptor(limit.Stream))
	fmt.Println(len(server.GetServiceInfo()))
	// Output: 0
}
