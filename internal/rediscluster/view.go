package rediscluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Slots is the number of hash slots of a cluster.
const Slots = 16384

// member is one line of CLUSTER NODES: what one node thinks of another, or of
// itself.
type member struct {
	id      string
	flags   []string
	primary string // the id of a replica's primary, else "-"
	epoch   int64
	linked  bool // there is a connection to it
	slots   []slotRange
}

// slotRange is a range of slots, both ends included.
type slotRange struct{ first, last int }

func (m member) is(flag string) bool { return slices.Contains(m.flags, flag) }

// slotCount returns how many slots it serves.
func (m member) slotCount() int {
	n := 0
	for _, r := range m.slots {
		n += r.last - r.first + 1
	}
	return n
}

func (m member) serves(slot int) bool {
	return slices.ContainsFunc(m.slots, func(r slotRange) bool { return r.first <= slot && slot <= r.last })
}

// parseMembers reads a reply to CLUSTER NODES. See
// https://redis.io/docs/latest/commands/cluster-nodes/#serialization-format.
func parseMembers(text string) ([]member, error) {
	var members []member
	for line := range strings.Lines(text) {
		m, err := parseMember(strings.Fields(line))
		if err != nil {
			return nil, fmt.Errorf("CLUSTER NODES line %q: %w", line, err)
		}
		members = append(members, m)
	}
	return members, nil
}

func parseMember(f []string) (member, error) {
	if len(f) < 8 {
		return member{}, errors.New("too short")
	}
	epoch, err := strconv.ParseInt(f[6], 10, 64)
	m := member{id: f[0], flags: strings.Split(f[2], ","), primary: f[3], epoch: epoch, linked: f[7] == "connected"}
	for _, s := range f[8:] {
		if strings.HasPrefix(s, "[") { // a slot on the move, listed as served too
			continue
		}
		first, last, ok := strings.Cut(s, "-")
		if !ok {
			last = first
		}
		lo, err1 := strconv.Atoi(first)
		hi, err2 := strconv.Atoi(last)
		err = errors.Join(err, err1, err2)
		m.slots = append(m.slots, slotRange{lo, hi})
	}
	return m, err
}

// members returns the whole cluster as this node sees it.
func (n *Node) members(ctx context.Context) ([]member, error) {
	text, err := n.client.ClusterNodes(ctx).Result()
	if err != nil {
		return nil, err
	}
	return parseMembers(text)
}

// self returns what the node thinks of itself.
func (n *Node) self(ctx context.Context) (member, error) {
	members, err := n.members(ctx)
	if err != nil {
		return member{}, err
	}
	i := slices.IndexFunc(members, func(m member) bool { return m.is("myself") })
	if i < 0 {
		return member{}, fmt.Errorf("%s doesn't list itself", n.Addr())
	}
	return members[i], nil
}

// SlotCount returns how many slots the node serves by its own account: none
// if it's a replica.
func (n *Node) SlotCount(ctx context.Context) (int, error) {
	m, err := n.self(ctx)
	if err != nil {
		return 0, fmt.Errorf("rediscluster: slots of %s: %w", n.Addr(), err)
	}
	return m.slotCount(), nil
}

// Slots returns the slots that the node serves by its own account, in their
// order: none if it's a replica.
func (n *Node) Slots(ctx context.Context) ([]int, error) {
	m, err := n.self(ctx)
	if err != nil {
		return nil, fmt.Errorf("rediscluster: slots of %s: %w", n.Addr(), err)
	}
	return m.firstSlots(Slots), nil
}

// layout writes down who serves what and who follows whom, in an order that
// makes two nodes' layouts equal when they agree.
func layout(members []member) string {
	var lines []string
	for _, m := range members {
		lines = append(lines, fmt.Sprint(m.id, m.is("master"), m.primary, m.slots))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
