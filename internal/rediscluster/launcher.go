package rediscluster

import "context"

// A launcher makes servers on addresses of its choice. Processes are one kind
// of it; containers would be another.
type launcher interface {
	// version is what its servers are.
	version() Version
	// server prepares a server, which isn't started yet. The flags are asked
	// for once, when its address is known.
	server(flags flagsFunc) (server, error)
	// close ends all its servers, waits for them and removes their data.
	close() error
}

// flagsFunc returns a server's flags for the address that it is to have.
type flagsFunc func(v Version, host, port string) []string

// A server keeps its address and its data folder from start to start. It's up
// to the caller not to call two methods of one server at once.
type server interface {
	// addr is the host:port that clients and peers dial.
	addr() string
	// start starts it, for the first time or again. It need not answer yet.
	start(ctx context.Context) error
	// exited says why it doesn't run; nil while it does.
	exited() error
	// pid is what INFO says as process_id if it is this server that answers.
	pid() int
	// kill ends it without warning and returns once it's gone.
	kill(ctx context.Context) error
	// hang stops it where it stands: it keeps its connections and says
	// nothing. resume lets it go on.
	hang(ctx context.Context) error
	resume(ctx context.Context) error
}
