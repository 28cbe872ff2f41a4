// Package config reads the program's configuration: what does the file say, and
// where is it wrong?
package config

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/rules"
)

// Config is what a configuration file says. It is not changed once it was read.
type Config struct {
	Server    Server // what is read at the start alone
	Authorize Authorize
	Rules     *rules.Set
}

// Server is what it takes a restart to change.
type Server struct {
	Listen         Listen
	AdminTokenFile string // "" for none
	Log            Log
	Redis          Redis
	Timeout        time.Duration // 0: the library's default
	SubjectKeyFile string        // "": subjects are in the keys as they are
	Breaker        shardlimit.BreakerConfig
}

// Listen is the addresses to listen on.
type Listen struct {
	Public string // of the API
	Admin  string // of what operators ask; "" for none
	// ReadTimeout is how long a client may take to send a request, and to take
	// the answer.
	ReadTimeout time.Duration
}

// Log is what the log looks like.
type Log struct {
	Format string // "text" or "json"
	Level  string // "debug", "info", "warn" or "error"
}

// Redis is the cluster or server to decide in.
type Redis struct {
	Nodes        []string // host:port, or redis:// and rediss:// URLs; none: the store in the process
	Single       bool     // the only node is a server without cluster mode
	Prefix       string   // "": the library's default
	User         string
	PasswordFile string
	TLS          TLS
}

// TLS is how to speak to Redis where it is not in the clear, as rediss:// URLs
// say too.
type TLS struct {
	CAFile     string // "": the system's authorities
	CertFile   string // with KeyFile, what the client shows
	KeyFile    string
	ServerName string // "": the host that is connected to
}

// Authorize is what a proxy's question is taken to mean.
type Authorize struct {
	Policy         string   // where the request names none
	PolicyHeader   string   // "" for none
	SubjectHeaders []string // the first that isn't empty counts
	DeniedStatus   int      // of the answer
}

// Default returns what holds where a file says nothing.
func Default() *Config {
	return &Config{
		Server: Server{
			Listen: Listen{Public: ":8080", Admin: "127.0.0.1:8081", ReadTimeout: 10 * time.Second},
			Log:    Log{Format: "text", Level: "info"},
		},
		Authorize: Authorize{DeniedStatus: 429},
		Rules:     rules.New(nil, nil),
	}
}

// Load reads the file at path. The error is a FileError, or that the file can't be
// read.
func Load(path string) (*Config, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return Parse(path, text)
}

// Parse reads the text of a file. The error is a FileError, whose faults name path.
func Parse(path string, text []byte) (*Config, error) {
	c, faults := parse(text)
	for i := range faults {
		faults[i].Path = path
	}
	if err := faults.sorted(); err != nil {
		return nil, err
	}
	return c, nil
}

func parse(text []byte) (*Config, FileError) {
	c, r := Default(), &reader{anchors: map[string]ast.Node{}}
	body, err := document(text)
	switch e, ok := errors.AsType[yaml.Error](err); {
	case ok:
		at := e.GetToken().Position
		return nil, FileError{{Line: at.Line, Column: at.Column, Reason: e.GetMessage()}}
	case err != nil:
		return nil, FileError{{Line: 1, Column: 1, Reason: err.Error()}}
	}
	r.document(c, body)
	return c, r.faults
}

// document returns the only document of text, or nil where it is empty.
func document(text []byte) (ast.Node, error) {
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		return nil, err
	}
	if len(file.Docs) > 1 {
		return nil, errors.New("must be one document, without a --- in between")
	}
	if len(file.Docs) == 0 {
		return nil, nil
	}
	return file.Docs[0].Body, nil
}
