package table_test

import (
	"strings"
	"testing"

	"github.com/shardlimit/shardlimit/bench/internal/table"
)

func TestATableIsMarkdownWhoseColumnsStandBelowEachOther(t *testing.T) {
	tt := table.New("", "decisions/s", "by Redis")
	tt.Addf("hot key\t%d\t%.1f %%", 18011, 0.1)
	tt.Addf("10000 keys\t%d\t-", 9654)
	const want = `|            | decisions/s | by Redis |
| ---------- | -----------:| --------:|
| hot key    |       18011 |    0.1 % |
| 10000 keys |        9654 |        - |
`
	var out strings.Builder
	if err := tt.Print(&out); err != nil || out.String() != want {
		t.Errorf("Print: %v\n%s\nwant\n%s", err, &out, want)
	}
}
