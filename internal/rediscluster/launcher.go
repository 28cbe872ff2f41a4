package rediscluster

import "context"

// A Launcher makes servers on addresses of its choice. Processes of this
// machine are the one kind; package containers has the other.
type Launcher interface {
	// Version is what its servers are.
	Version() Version
	// Server prepares a server, which isn't started yet. The flags are asked
	// for once, when its address is known.
	Server(flags Flags) (Server, error)
	// Close ends all its servers, waits for them and removes their data.
	Close() error
}

// Flags returns a server's flags for the address that it is to have.
type Flags func(v Version, host, port string) []string

// A Server keeps its address and its data folder from start to start. It's up
// to the caller not to call two methods of one server at once.
type Server interface {
	// Addr is the host:port that clients and peers dial.
	Addr() string
	// Start starts it, for the first time or again. It need not answer yet.
	Start(ctx context.Context) error
	// Exited says why it doesn't run; nil while it does.
	Exited(ctx context.Context) error
	// PID is what INFO says as process_id if it is this server that answers.
	PID() int
	// Kill ends it without warning and returns once it's gone.
	Kill(ctx context.Context) error
	// Hang stops it where it stands: it keeps its connections and says
	// nothing. Resume lets it go on.
	Hang(ctx context.Context) error
	Resume(ctx context.Context) error
	// Cut takes it off that side of the network while it runs on; [ErrCannotCut]
	// where that can't be done here. Heal takes it back, if it was cut.
	Cut(ctx context.Context, from Side) error
	Heal(ctx context.Context) error
}
