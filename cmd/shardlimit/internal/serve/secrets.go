package serve

import (
	"bytes"
	"fmt"
	"os"
)

// Secrets are what is in no file of configuration, and in no log.
type Secrets struct {
	RedisUser     string // "" for none
	RedisPassword string // where there is no file of it
	AdminToken    string // "" for none
}

// String returns nothing of them, so that no log does.
func (Secrets) String() string { return "(secrets)" }

// GoString returns nothing of them.
func (s Secrets) GoString() string { return s.String() }

// ReadSecret returns what the file holds, without the end of its last line.
func ReadSecret(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	text = bytes.TrimRight(text, "\r\n")
	if len(text) == 0 {
		return "", fmt.Errorf("%s: is empty: it should hold a secret", path)
	}
	return string(text), nil
}
