package drill

import (
	"fmt"
	"slices"
	"strings"
)

// sighted returns what the calls saw of the fault.
func (p *play) sighted() *sightings {
	seen := &sightings{scenario: &p.scenario, target: p.fault.target}
	for c := range p.fault.load.all() {
		seen.add(c)
	}
	return seen
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

// misclassed says which failures weren't of the class that they must be.
func (s *sightings) misclassed() (wrong []string) {
	if s.charged != nil {
		wrong = append(wrong, fmt.Sprintf("refused, and yet unknown: %v", s.charged))
	}
	if s.strange != nil {
		wrong = append(wrong, fmt.Sprintf("an error: %v", s.strange))
	}
	return wrong
}

// missed says what was to be seen of the fault, and wasn't.
func (s *sightings) missed() (missed []string) {
	if s.scenario.Outage && !s.outage {
		missed = append(missed, "no call was answered by its failure mode")
	}
	if s.scenario.Refusal != "" && !s.refusal {
		missed = append(missed, "no call was refused with "+s.scenario.Refusal)
	}
	if s.scenario.Fault != "" && !s.fault {
		missed = append(missed, "no call had "+s.scenario.Fault+" for an error")
	}
	return missed
}
