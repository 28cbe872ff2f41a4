// Command shardlimit serves rate limits over HTTP, asks those of a Redis Cluster,
// examines one, and shows what the library does.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
	"github.com/redis/go-redis/v9"
)

func main() {
	redis.SetLogger(silence{}) // what matters comes back as an error
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// The exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // a promise was broken, or the command couldn't do its work
	exitUsage  = 2
)

// exit is an error that is only the exit code: the output has said why.
type exit int

// The exit codes of commands that have a say in them.
const (
	errDenied  exit = 3
	errWarning exit = 3
	errFailure exit = 4
)

// Error is for the sake of the interface.
func (e exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// standardError is where complaints go.
type standardError interface{ io.Writer }

// errBroken says that a promise was broken, as the output has shown.
var errBroken = errors.New("a promise was broken")

// commands are those of the program.
type commands struct {
	Serve   serveCommand   `cmd:"" help:"Answer over HTTP whether requests may go ahead: for programs, nginx, Traefik, Caddy."`
	Health  healthCommand  `cmd:"" help:"Ask a running daemon whether it runs."`
	Config  configCommand  `cmd:"" help:"Look at a configuration of serve."`
	Check   checkCommand   `cmd:"" help:"Ask a limit in a Redis, and charge it."`
	Inspect inspectCommand `cmd:"" help:"Look at a limit in a Redis, and charge nothing."`
	Reset   resetCommand   `cmd:"" help:"Forget what a subject has used."`
	Doctor  doctorCommand  `cmd:"" help:"Look for what would hurt a limiter on a Redis Cluster."`
	Demo    demoCommand    `cmd:"" help:"Drive traffic at a cluster that is turned upside down, and keep a ledger of every promise."`
	Compare compareCommand `cmd:"" help:"Show what each algorithm makes of the same 100 per minute."`
	Version versionCommand `cmd:"" help:"Print the version."`
}

// run runs the command that args name and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var c commands
	parser := kong.Must(&c,
		kong.Name("shardlimit"),
		kong.Description("Rate limits that hold across a Redis Cluster, as a program."),
		kong.Writers(stdout, stderr),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.BindTo(stdout, (*io.Writer)(nil)),
		kong.BindTo(stderr, (*standardError)(nil)),
	)
	command, err := parser.Parse(args)
	if err != nil {
		complain(stderr, "%v\nTry: shardlimit --help", err)
		return exitUsage
	}
	err = command.Run()
	if code, ok := errors.AsType[exit](err); ok {
		return int(code)
	}
	if err != nil {
		complain(stderr, "%v", err)
		return exitFailed
	}
	return exitOK
}

// complain writes to standard error: where that is gone, there's nobody to tell.
func complain(stderr io.Writer, format string, args ...any) {
	text := strings.TrimPrefix(fmt.Sprintf(format, args...), "shardlimit: ") // as the library's own errors begin
	_, _ = fmt.Fprintf(stderr, "shardlimit: %s\n", text)
}

// silence is a logger of the Redis client that says nothing.
type silence struct{}

// Printf does nothing.
func (silence) Printf(context.Context, string, ...any) {}
