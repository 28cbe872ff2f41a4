package hotkey

import "math"

// demand is how much is asked for: averages in which the past counts less and
// less, by demandTime. They are right from the start, of however little there is
// to go by.
type demand struct {
	sumRequests, sumUnits float64 // what was asked for, as far as it counts still
	weight                float64 // of the time that they are sums over, in seconds
	at                    moment  // of the latest addition
}

const (
	// demandTime is the time constant: as the scripts have it.
	demandTime = 2 * LeaseTime
	// demandStart is how long a new demand counts as known for. It tempers what
	// the first few milliseconds say.
	demandStart = LeaseTime / 4
)

// newDemand returns a demand of so many requests and units a second.
func newDemand(requests, units float64, now moment) demand {
	seconds := demandStart.Seconds()
	return demand{sumRequests: requests * seconds, sumUnits: units * seconds, weight: seconds, at: now}
}

// add takes in what was asked for since the latest addition.
func (d *demand) add(requests, units float64, now moment) {
	passed := now.since(d.at).Seconds()
	keep := math.Exp(-passed / demandTime.Seconds())
	// What came evenly over the time has lost a part of its weight already.
	counts := (1 - keep) * demandTime.Seconds()
	d.sumRequests = d.sumRequests*keep + requests/passed*counts
	d.sumUnits = d.sumUnits*keep + units/passed*counts
	d.weight = d.weight*keep + counts
	d.at = now
}

// requests returns how many requests there are a second.
func (d *demand) requests() float64 { return d.sumRequests / d.weight }

// units returns how many units are asked for in a second.
func (d *demand) units() float64 { return d.sumUnits / d.weight }
