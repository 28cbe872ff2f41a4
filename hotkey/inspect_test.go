package hotkey

import (
	"encoding/json"
	"testing"
)

// Whoever is sent a Snapshot reads it back.
func TestReasonsReadBack(t *testing.T) {
	for r := range Reason(reasonsNumber) {
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		got := Reason(reasonsNumber)
		if err := json.Unmarshal(text, &got); err != nil || got != r {
			t.Errorf("%s reads back as %v, %v; want %v", text, got, err, r)
		}
	}
	var r Reason
	if err := json.Unmarshal([]byte(`"bored"`), &r); err == nil {
		t.Errorf("bored reads as %v, want an error", r)
	}
}
