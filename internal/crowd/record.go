package crowd

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/ledger"
)

// Outcome is what became of a request.
type Outcome uint8

// The outcomes.
const (
	Denied      Outcome = iota // by Redis
	DeniedHere                 // by what the instance knew
	Admitted                   // by Redis
	Leased                     // from a lease
	Unknown                    // the shard did not answer in time: charged or not
	NeverRan                   // the shard did not answer, and charged nothing
	GivenBack                  // a refund of an earlier one
	LostRefund                 // a refund that may have come to nothing
	outcomesEnd = iota
)

// Record is one answer, as it is written down.
type Record struct {
	At      ledger.Span // since the run's start
	Key     int         // index in the Order
	Outcome Outcome
	Units   int64
}

// outcome returns what a decision is written down as.
func outcome(r shardlimit.Result) Outcome {
	down, failed := errors.AsType[*shardlimit.UnavailableError](r.Failure)
	switch {
	case failed && down.Unknown:
		return Unknown
	case failed:
		return NeverRan
	case r.Source == shardlimit.FromLease:
		return Leased
	case r.Source == shardlimit.FromDenial:
		return DeniedHere
	case r.Allowed:
		return Admitted
	default:
		return Denied
	}
}

const recordSize = 16

// book writes records to a file. It is safe for concurrent use.
type book struct {
	mu   sync.Mutex
	file *os.File
	out  io.Writer
	err  error
}

// newBook returns a book in a new file. A durable one has each record in the file
// at once, so that it survives the process.
func newBook(name string, durable bool) (*book, error) {
	file, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	b := &book{file: file, out: file}
	if !durable {
		b.out = bufio.NewWriterSize(file, 1<<20)
	}
	return b, nil
}

// write writes r down. Its times are rounded outwards to whole µs.
func (b *book) write(r Record) {
	var bytes [recordSize]byte
	sent := r.At.Sent.Microseconds()
	took := (r.At.Replied + time.Microsecond - 1).Microseconds() - sent
	binary.LittleEndian.PutUint64(bytes[:], uint64(sent))
	binary.LittleEndian.PutUint32(bytes[8:], uint32(took))
	binary.LittleEndian.PutUint16(bytes[12:], uint16(r.Units))
	bytes[14], bytes[15] = uint8(r.Key), uint8(r.Outcome)
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, err := b.out.Write(bytes[:]); err != nil && b.err == nil {
		b.err = err
	}
}

func (b *book) close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if w, ok := b.out.(*bufio.Writer); ok {
		b.err = errors.Join(b.err, w.Flush())
	}
	return errors.Join(b.err, b.file.Close())
}

// readBook returns the records of a file. Of one that its instance was killed
// over, the last may be torn: it is left out.
func readBook(name string) ([]Record, error) {
	bytes, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	records := make([]Record, 0, len(bytes)/recordSize)
	for ; len(bytes) >= recordSize; bytes = bytes[recordSize:] {
		sent := time.Duration(binary.LittleEndian.Uint64(bytes)) * time.Microsecond
		took := time.Duration(binary.LittleEndian.Uint32(bytes[8:])) * time.Microsecond
		records = append(records, Record{
			At:  ledger.Span{Sent: sent, Replied: sent + took},
			Key: int(bytes[14]), Outcome: Outcome(bytes[15]), Units: int64(binary.LittleEndian.Uint16(bytes[12:])),
		})
	}
	return records, nil
}
