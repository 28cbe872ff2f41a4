package drill

import (
	"fmt"
	"slices"
	"strings"
)

// misclassed says which failures weren't of the class that the scenario is for.
func (p *play) misclassed() []string {
	seen := sightings{scenario: &p.scenario, target: p.fault.target}
	for c := range p.fault.load.all() {
		seen.add(c)
	}
	return seen.amiss()
}

// sightings are of what a scenario must show.
type sightings struct {
	scenario               *Scenario
	target                 int
	outage, refusal, fault bool
	charged, strange       error
}

func (s *sightings) add(c *call) {
	here := s.scenario.everywhere || c.subject.shard == s.target
	if down := c.failure(); down != nil {
		s.outage = s.outage || here
		if says(down, s.scenario.Refusal) {
			s.refusal = true
			if down.Unknown {
				s.charged = down
			}
		}
	}
	if c.err == nil {
		return
	}
	fault := here && says(c.err, s.scenario.Fault)
	s.fault = s.fault || fault
	if !fault && !s.tolerates(c.err) {
		s.strange = c.err
	}
}

func (s *sightings) tolerates(err error) bool {
	return slices.ContainsFunc(s.scenario.tolerates, func(code string) bool { return says(err, code) })
}

// says reports whether err has the reply's code in its text, as callers see it.
func says(err error, code string) bool { return code != "" && strings.Contains(err.Error(), code) }

func (s *sightings) amiss() (amiss []string) {
	check := func(ok bool, format string, args ...any) {
		if !ok {
			amiss = append(amiss, fmt.Sprintf(format, args...))
		}
	}
	check(!s.scenario.Outage || s.outage, "no call was answered by its failure mode")
	check(s.scenario.Refusal == "" || s.refusal, "no call was refused with %s", s.scenario.Refusal)
	check(s.scenario.Fault == "" || s.fault, "no call had %s for an error", s.scenario.Fault)
	check(s.charged == nil, "refused, and yet unknown: %v", s.charged)
	check(s.strange == nil, "an error: %v", s.strange)
	return amiss
}
