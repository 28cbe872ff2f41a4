package crowd

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/ledger"
)

const ms = time.Millisecond

// at is from one time to another, in µs.
func at(sent, replied int) ledger.Span {
	return ledger.Span{Sent: time.Duration(sent) * time.Microsecond, Replied: time.Duration(replied) * time.Microsecond}
}

// order is of one key, of which two units pass at once, and one in each 100 ms.
func order() Order {
	return Order{
		Start: time.Unix(1_900_000_000, 0),
		Keys:  []Key{{Policy: "p", Subject: "s", Limit: shardlimit.PerSecond(10).WithBurst(2)}},
	}
}

// What instances wrote down is all there, also of one that was killed over a
// record, and judged together.
func TestReadPutsAllRecordsTogether(t *testing.T) {
	dir := t.TempDir()
	var files []string
	for i, durable := range []bool{false, true} {
		name := filepath.Join(dir, string(rune('a'+i)))
		b, err := newBook(name, durable)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range []Record{
			{At: at(0, 100), Outcome: Admitted, Units: 1},
			{At: at(50, 51), Outcome: Leased, Units: 1},
			{At: at(60, 61), Outcome: DeniedHere, Units: 1},
			{At: at(70, 71), Outcome: GivenBack, Units: 1},
		} {
			b.write(r)
		}
		if err := b.close(); err != nil {
			t.Fatal(err)
		}
		files = append(files, name)
	}
	torn, err := os.OpenFile(files[1], os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = torn.WriteString("half a record")
	if err := torn.Close(); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	accounts, err := Read(order(), files...)
	if err != nil {
		t.Fatal(err)
	}
	a := &accounts[0]
	if a.Asked() != 6 || a.Passed() != 4 || a.Kept() != 2 || a.ByOutcome[DeniedHere] != 2 {
		t.Errorf("asked %d, passed %d, kept %d, %v", a.Asked(), a.Passed(), a.Kept(), a.ByOutcome)
	}
	if over := a.Over(); over != 2 {
		t.Errorf("over by %d, want the 2 above the burst", over)
	}
	if fresh := a.Fresh(); fresh != 2 {
		t.Errorf("%d pass of a store that lends nothing, want the burst", fresh)
	}
	if got := a.AtRisk(a.start.Add(60*time.Microsecond), a.start.Add(ms)); got != 2 {
		t.Errorf("%d at risk, want the 2 that were answered after that", got)
	}
}

func TestTimesAreRoundedOutwards(t *testing.T) {
	name := filepath.Join(t.TempDir(), "book")
	b, err := newBook(name, true)
	if err != nil {
		t.Fatal(err)
	}
	b.write(Record{At: ledger.Span{Sent: 1999, Replied: 2001}, Key: 3, Outcome: Leased, Units: 9})
	if err := b.close(); err != nil {
		t.Fatal(err)
	}
	got, err := readBook(name)
	want := Record{At: at(1, 3), Key: 3, Outcome: Leased, Units: 9}
	if err != nil || len(got) != 1 || got[0] != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
}
