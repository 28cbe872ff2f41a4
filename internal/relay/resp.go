package relay

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// frames reads a stream of RESP2 or RESP3 frame by frame, without changing it.
// See https://redis.io/docs/latest/develop/reference/protocol-spec/.
type frames struct {
	r *bufio.Reader
}

// frame is one value, nested ones included.
type frame struct {
	raw   []byte   // as it was on the wire
	words []string // its bulk strings in order: of a command, name and arguments
}

// push reports whether the frame came unasked, and so answers no command.
func (f frame) push() bool { return f.raw[0] == '>' }

func newFrames(r io.Reader) *frames { return &frames{bufio.NewReader(r)} }

func (fs *frames) next() (frame, error) {
	var f frame
	err := fs.value(&f, 0)
	return f, err
}

// maxDepth is how deep values may nest; what Redis sends nests a few deep.
const maxDepth = 64

// value reads one value onto the end of f.
func (fs *frames) value(f *frame, depth int) error {
	if depth > maxDepth {
		return errors.New("resp: nested too deep")
	}
	line, err := fs.line(f)
	if err != nil {
		return err
	}
	switch line[0] {
	case '+', '-', ':', '_', '#', ',', '(':
		return nil
	}
	n, err := strconv.Atoi(line[1:])
	if err != nil || n < -1 {
		return fmt.Errorf("resp: bad length in %.40q", line)
	}
	switch line[0] {
	case '$', '=', '!':
		return fs.bulk(f, n)
	case '*', '~', '>':
		return fs.values(f, n, depth)
	case '%':
		return fs.values(f, 2*n, depth)
	case '|': // attributes of the value that follows
		return fs.values(f, 2*n+1, depth)
	}
	return fmt.Errorf("resp: no type begins %.40q", line)
}

func (fs *frames) values(f *frame, n, depth int) error {
	for range n {
		if err := fs.value(f, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// bulk reads n bytes and the line's end after them; -1 is a null, without.
func (fs *frames) bulk(f *frame, n int) error {
	const most = 512 << 20 // bytes, Redis' own limit
	if n < 0 {
		return nil
	}
	if n > most {
		return fmt.Errorf("resp: %d bytes at once", n)
	}
	body, err := io.ReadAll(io.LimitReader(fs.r, int64(n)+2))
	if err == nil && len(body) < n+2 {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return err
	}
	if string(body[n:]) != "\r\n" {
		return errors.New("resp: a bulk string goes on past its end")
	}
	f.raw = append(f.raw, body...)
	f.words = append(f.words, string(body[:n]))
	return nil
}

// line reads a line and returns it without its end; it isn't empty.
func (fs *frames) line(f *frame) (string, error) {
	line, err := fs.r.ReadString('\n')
	if err != nil {
		return "", err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return "", fmt.Errorf("resp: bad line %.40q", line)
	}
	f.raw = append(f.raw, line...)
	return line[:len(line)-2], nil
}
