package serve

import (
	"bytes"
	"fmt"
	"os"
)

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
