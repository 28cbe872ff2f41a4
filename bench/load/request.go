package main

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// request is the text of one.
type request []byte

// health asks for no decision.
func health() request { return request("GET /healthz HTTP/1.1\r\nHost: load\r\n\r\n") }

// checks returns a check for each of so many keys.
func checks(keys int) []request {
	all := make([]request, keys)
	for i := range all {
		all[i] = post(about(i))
	}
	return all
}

// batches returns as many checks of so many requests each, of any of the keys.
func batches(keys, size int) []request {
	all := make([]request, keys)
	for i := range all {
		items := make([]string, size)
		for j := range items {
			items[j] = about(rand.IntN(keys))
		}
		all[i] = post(`{"requests":[` + strings.Join(items, ",") + `]}`)
	}
	return all
}

// about returns a question about one of the keys.
func about(key int) string { return fmt.Sprintf(`{"policy":"load","subject":"user:%d"}`, key) }

func post(body string) request {
	return fmt.Appendf(nil, "POST /v1/check HTTP/1.1\r\nHost: load\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		len(body), body)
}

// read reads an answer, which must be for and not against, and returns its body:
// it holds until the next.
func read(r *bufio.Reader) ([]byte, error) {
	status, err := r.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(status, []byte("HTTP/1.1 200 ")) {
		return nil, fmt.Errorf("the daemon answers %q", status)
	}
	size, err := header(r)
	if err != nil {
		return nil, err
	}
	body, err := r.Peek(size)
	if err != nil {
		return nil, err
	}
	if bytes.Contains(body, []byte(`"allowed":false`)) || bytes.Contains(body, []byte(`"failure"`)) {
		return nil, fmt.Errorf("the daemon answers %s", body)
	}
	_, err = r.Discard(size)
	return body, err
}

// header reads the header of an answer, and returns how long the body is.
func header(r *bufio.Reader) (size int, err error) {
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			return size, nil
		}
		if text, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if size, err = strconv.Atoi(string(text)); err != nil {
				return 0, err
			}
		}
	}
}
