package ledger

import "testing"

func TestSettle(t *testing.T) {
	for _, c := range []struct {
		name string
		a    Account
		used int64
		want Settlement
	}{
		{"each admission charged", Account{Asked: 5, Admitted: 5}, 5, Settlement{}},
		{"one charged twice", Account{Asked: 5, Admitted: 5}, 6, Settlement{Double: 1}},
		{"one that never ran is charged", Account{Admitted: 5, NeverRan: 1}, 6, Settlement{Double: 1}},
		{"two of three unknown were charged", Account{Admitted: 5, Unknown: 3}, 7, Settlement{Stood: 2}},
		{"more than all unknown", Account{Admitted: 5, Unknown: 3}, 9, Settlement{Stood: 3, Double: 1}},
		{"what was at risk is gone", Account{Admitted: 5, AtRisk: 2}, 3, Settlement{Lost: 2}},
		{"one more than was at risk", Account{Admitted: 5, AtRisk: 2}, 2, Settlement{Lost: 3, Vanished: 1}},
	} {
		if got := Settle(c.a, c.used); got != c.want {
			t.Errorf("%s: Settle(%+v, %d) = %+v, want %+v", c.name, c.a, c.used, got, c.want)
		}
	}
}
