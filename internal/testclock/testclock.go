// Package testclock lets the tests of this module fix the moment at which a
// decision is made. It is internal so that no user of the module can: in
// production every decision reads the clock of the shard that makes it.
package testclock

// Time is a moment that stands in for the shard's TIME. The zero Time stands
// for none: the real clock decides.
type Time struct {
	micros int64
	fixed  bool
}

// At returns the moment that lies micros µs after 1970.
func At(micros int64) Time {
	return Time{micros: micros, fixed: true}
}

// Micros returns the moment in µs since 1970, and whether there is one.
func (t Time) Micros() (micros int64, ok bool) {
	return t.micros, t.fixed
}
