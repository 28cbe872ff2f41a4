package ledger

// Settlement is how an account compares with what Redis says at the end is used
// of the limit, in units.
type Settlement struct {
	Double   int64 // charged beyond each call that may have been: some were charged twice
	Lost     int64 // admitted, and the charge is gone: as many can be admitted again
	Vanished int64 // of those lost, the ones that were never at risk
	Stood    int64 // charged for calls that nobody knows of
}

// Settle compares an account with what is used at the end: of a limit that gives
// nothing back meanwhile, was never reached, and of which nothing was used before.
//
// What is lost is told from what is unknown only by their sum: a charge of an
// unknown call stands in for one that is gone.
func Settle(a Account, used int64) Settlement {
	s := Settlement{
		Double: max(0, used-a.Admitted-a.Unknown),
		Lost:   max(0, a.Admitted-used),
		Stood:  max(0, used-a.Admitted),
	}
	s.Stood -= s.Double
	s.Vanished = max(0, s.Lost-a.AtRisk)
	return s
}
