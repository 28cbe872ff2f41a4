// Package config reads the program's configuration: what does the file say, and
// where is it wrong?
package config

import (
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/envoy/domains"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/rules"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/yamldoc"
)

// Config is what a configuration file says. It is not changed once it was read.
type Config struct {
	Server    Server // what is read at the start alone
	Authorize Authorize
	Envoy     Envoy
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
	EnvoyPath      string // of the limits that Envoy asks about: a file, or a folder of them; "" for none
}

// Listen is the addresses to listen on.
type Listen struct {
	Public string // of the API
	Admin  string // of what operators ask; "" for none
	// AdminHosts are names and addresses by which operators reach Admin, beside
	// those of loopback, where there is no token.
	AdminHosts []string
	Envoy      string // of Envoy's rate limit service; "" for none
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

// Envoy is what Envoy is answered.
type Envoy struct {
	Domains *domains.Set // the limits; Source.Read reads them
	// Settings is what holds for all of the limits.
	Settings domains.Settings
	// HandOver lets Envoy's failure_mode_deny decide where Redis can't, in place
	// of the settings' OnFailure.
	HandOver bool
	Shadow   bool   // answer OK whatever the limits say
	Headers  string // "none", "draft" or "reference"
}

// Default returns what holds where a file says nothing.
func Default() *Config {
	return &Config{
		Server: Server{
			Listen: Listen{Public: ":8080", Admin: "127.0.0.1:8081", ReadTimeout: 10 * time.Second},
			Log:    Log{Format: "text", Level: "info"},
		},
		Authorize: Authorize{DeniedStatus: 429},
		Envoy: Envoy{
			Domains: &domains.Set{}, Settings: domains.Default(), HandOver: true, Headers: "none",
		},
		Rules: rules.New(nil, nil),
	}
}

// Parse reads the text of a file, and no other file that it names. The error is a yamldoc.FileError, whose faults
// name path.
func Parse(path string, text []byte) (*Config, error) {
	c, faults := parse(text)
	for i := range faults {
		faults[i].Path = path
	}
	if err := faults.Sorted(); err != nil {
		return nil, err
	}
	return c, nil
}

func parse(text []byte) (*Config, yamldoc.FileError) {
	documents, faults := yamldoc.Parse(text)
	if faults != nil {
		return nil, faults
	}
	c, r := Default(), &reader{}
	switch len(documents) {
	case 0:
		readDocument(r, c, nil)
	case 1:
		readDocument(r, c, documents[0])
	default:
		r.Fault(nil, "", "must be one document, without a --- in between")
	}
	return c, r.Faults
}
