// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cut

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/barrier"
)

// comm7 is the communicator of these tests.
const comm7 = barrier.Comm(7)

func countOf(comm barrier.Comm, member int32, n uint64) barrier.Count {
	return barrier.Count{Key: barrier.Key{Comm: comm, Member: member}, N: n}
}

// eventOf makes an event of a process.
func eventOf(kind Kind, process uint64, counts ...barrier.Count) Event {
	return Event{Kind: kind, Process: process, Counts: counts}
}

// placeEvent makes an event of a place in a communicator of two.
func placeEvent(kind Kind, process uint64, member int32, how func(*Place)) Event {
	p := &Place{Comm: comm7, Size: 2, Member: member, Process: process}
	if how != nil {
		how(p)
	}
	return Event{Kind: kind, Process: process, Place: p}
}

func makePlace(p *Place)  { p.Made = true }
func breakPlace(p *Place) { p.Broken = true }

// openedEvent makes the Opened event of a member that has a single process, with or without a place in the
// communicator.
func openedEvent(process uint64, places ...Place) Event {
	return Event{Kind: Opened, Processes: []Process{{ID: process, PID: 100 + int(process)}}, Places: places}
}

// openPair makes the Opened events of two members with a process each, 5 and 9, which are in a communicator.
func openPair() []Event {
	return []Event{
		openedEvent(5, Place{Comm: comm7, Size: 2, Member: 0, Process: 5, Made: true}),
		openedEvent(9, Place{Comm: comm7, Size: 2, Member: 1, Process: 9, Made: true}),
	}
}

// takeEffects returns the effects of a leaderState as text, and removes them from it.
func takeEffects(k *leaderState) string {
	var words []string
	say := func(is bool, format string, args ...any) {
		if is {
			words = append(words, fmt.Sprintf(format, args...))
		}
	}
	for _, e := range k.out {
		say(e.Shut, "shut")
		say(len(e.Withdraw) > 0, "withdraw %v", e.Withdraw)
		for _, r := range e.Raise {
			for _, c := range r.Targets {
				say(true, "raise %d to %v=%d", r.Rank, c.Key, c.N)
			}
		}
		say(len(e.Nudge) > 0, "nudge %v", e.Nudge)
		say(len(e.Create) > 0, "create %v", e.Create)
		say(e.Read, "read")
		say(e.Drain, "drain")
		say(e.ShutCalls, "calls")
		say(e.Cut, "cut")
		say(e.Failed != nil, "%v", e.Failed)
	}
	k.out = nil
	return strings.Join(words, ", ")
}

// heardOf is an event of a member, and the effects that must follow.
type heardOf struct {
	member int
	event  Event
	want   string
}

// toTheCut returns the events of the processes of openPair from the second reading on.
func toTheCut(counts ...barrier.Count) []heardOf {
	var of5, of9 []barrier.Count
	for _, c := range counts {
		if c.Member == 0 {
			of5 = append(of5, c)
		} else {
			of9 = append(of9, c)
		}
	}
	return []heardOf{
		{0, eventOf(Reading, 5, of5...), ""},
		{1, eventOf(Reading, 9, of9...), "drain"},
		{1, eventOf(Drained, 9), ""},
		{0, eventOf(Drained, 5), "calls"},
		{0, eventOf(CallsShut, 5), ""},
		{1, eventOf(CallsShut, 9), "cut"},
	}
}

// TestBook: events of members, in the order in which the leader gets them, and their effects.
func TestBook(t *testing.T) {
	away := func(p Place) Place { p.Made, p.Left = false, true; return p }
	for name, c := range map[string]struct {
		opened []Event
		first  string
		then   []heardOf
	}{
		"no member is there": {[]Event{{Kind: Opened}, {Kind: Opened}}, "calls, cut", nil},
		"all is even": {openPair(), "shut", append([]heardOf{
			{0, eventOf(Shut, 5, countOf(comm7, 0, 3)), ""},
			{1, eventOf(Shut, 9, countOf(comm7, 1, 3)), "read"},
		}, toTheCut(countOf(comm7, 0, 3), countOf(comm7, 1, 3))...)},
		"one is behind": {openPair(), "shut", append([]heardOf{
			{0, eventOf(Shut, 5, countOf(comm7, 0, 3)), ""},
			{1, eventOf(Shut, 9, countOf(comm7, 1, 2)), "raise 1 to 7.1=3"},
			{1, eventOf(Issued, 9, countOf(comm7, 1, 3)), "read"},
		}, toTheCut()...)},
		"a communicator that is not wholly known": {[]Event{openedEvent(5, Place{Comm: comm7, Size: 2, Process: 5, Made: true}), openedEvent(9)}, "shut", append([]heardOf{
			{0, eventOf(Shut, 5, countOf(comm7, 0, 1)), ""}, // the report waits
			{0, eventOf(Issued, 5, countOf(comm7, 0, 2)), ""},
			{1, eventOf(Shut, 9), ""},
			{1, placeEvent(Made, 9, 1, makePlace), "raise 1 to 7.1=1, raise 1 to 7.1=2"},
			{1, eventOf(Issued, 9, countOf(comm7, 1, 2)), "read"},
		}, toTheCut()...)},
		"no member has come to a creation before the attempt": {[]Event{openedEvent(5), openedEvent(9)}, "shut", append([]heardOf{
			{0, placeEvent(Arrived, 5, 0, nil), ""},
			{0, eventOf(Shut, 5), ""},
			{1, eventOf(Shut, 9), "read"}, // the creation has not begun, and hinders no rank
			{1, placeEvent(Arrived, 9, 1, nil), ""},
		}, toTheCut()...)},
		"a creation that is under way": {
			[]Event{openedEvent(5, Place{Comm: comm7, Size: 2, Process: 5}), openedEvent(9, Place{Comm: comm7, Size: 2, Member: 1, Process: 9})}, "shut",
			append([]heardOf{
				{0, eventOf(Shut, 5), ""},
				{1, eventOf(Shut, 9), ""},
				{0, placeEvent(Made, 5, 0, makePlace), ""},
				{1, placeEvent(Made, 9, 1, makePlace), "read"},
			}, toTheCut()...),
		},
		"a creation that fails": {
			[]Event{openedEvent(5, Place{Comm: comm7, Size: 2, Process: 5}), openedEvent(9)}, "shut", append([]heardOf{
				{0, eventOf(Shut, 5), ""},
				{1, eventOf(Shut, 9), "read"},
				{0, placeEvent(Made, 5, 0, breakPlace), ""},
			}, toTheCut()...),
		},
		"a communicator breaks": {openPair(), "shut", append([]heardOf{
			{0, eventOf(Shut, 5, countOf(comm7, 0, 3)), ""},
			{1, eventOf(Shut, 9, countOf(comm7, 1, 2)), "raise 1 to 7.1=3"},
			{0, placeEvent(Broken, 5, 0, breakPlace), "withdraw [1]"},
			{1, eventOf(Withdrawn, 9), "read"},
		}, toTheCut()...)},
		"one has given up its place, behind": {[]Event{
			openedEvent(5, Place{Comm: comm7, Size: 2, Process: 5, Made: true}),
			openedEvent(9, away(Place{Comm: comm7, Size: 2, Member: 1, Process: 9, Counts: []barrier.Count{countOf(comm7, 1, 2)}})),
		}, "shut", []heardOf{
			{1, eventOf(Shut, 9), ""},
			{0, eventOf(Shut, 5, countOf(comm7, 0, 3)), "no cut: rank 1 left communicator 7, where it is behind"},
		}},
		"one ends, and has done its part": {openPair(), "shut", []heardOf{
			{0, eventOf(Shut, 5, countOf(comm7, 0, 3)), ""},
			{1, placeEvent(Left, 9, 1, func(p *Place) { p.Left, p.Counts = true, []barrier.Count{countOf(comm7, 1, 3)} }), ""},
			{1, eventOf(Ended, 9), "read"},
			{0, eventOf(Reading, 5), "drain"},
			{0, eventOf(Drained, 5), "calls"},
			{0, eventOf(CallsShut, 5), "cut"},
		}},
		"one is killed":             {openPair(), "shut", []heardOf{{1, eventOf(Died, 9), "no cut: rank 1 died"}}},
		"one cannot be captured":    {openPair(), "shut", []heardOf{{1, Event{Kind: Stuck, Process: 9, Reason: "a fault"}, "no cut: rank 1 cannot be captured: a fault"}}},
		"events that make no sense": {openPair(), "shut", []heardOf{{0, eventOf(Shut, 9, countOf(comm7, 1, 3)), ""}, {0, placeEvent(Made, 5, 2, makePlace), ""}, {0, placeEvent(Made, 6, 0, makePlace), ""}, {0, Event{Kind: Made}, ""}, {0, eventOf("cake", 5), ""}}},
		"a process that is twice":   {[]Event{{Kind: Opened, Processes: []Process{{ID: 5}, {ID: 5}}}}, "shut", []heardOf{{0, eventOf(Shut, 5), "read"}}},
	} {
		t.Run(name, func(t *testing.T) {
			k := newLeaderState(c.opened)
			if got := takeEffects(k); got != c.first {
				t.Fatalf("effects of the Opened events = %q, want %q", got, c.first)
			}
			for i, h := range c.then {
				k.enterEvent(h.member, &h.event)
				if got := takeEffects(k); got != h.want {
					t.Fatalf("effects of event %d, %s = %q, want %q", i, h.event.Kind, got, h.want)
				}
			}
		})
	}
}

// TestBookOrders: effects for ranks become orders to members, with the members' names for the processes.
func TestBookOrders(t *testing.T) {
	k := newLeaderState([]Event{{Kind: Opened, Processes: []Process{{ID: 8, PID: 80}, {ID: 3, PID: 30}}}, openedEvent(3)})
	want := []RankProcess{{0, 3, 30}, {0, 8, 80}, {1, 3, 103}}
	if !slices.Equal(k.who, want) {
		t.Fatalf("ranks = %v", k.who)
	}
	target := []barrier.Count{countOf(comm7, 1, 4)}
	for _, c := range []struct {
		e    barrier.Effects
		want map[int]Order
	}{
		{barrier.Effects{}, map[int]Order{}},
		{barrier.Effects{Shut: true}, map[int]Order{0: {Shut: true}, 1: {Shut: true}}},
		{barrier.Effects{Withdraw: []barrier.Rank{0, 1}}, map[int]Order{0: {Withdraw: []uint64{3, 8}}}},
		{barrier.Effects{Raise: []barrier.Raise{{Rank: 2, Targets: target}}, Nudge: []barrier.Rank{1}}, map[int]Order{0: {Nudge: []uint64{8}}, 1: {Raise: []Raise{{3, target}}}}},
		{barrier.Effects{Create: []uint64{7}, Nudge: []barrier.Rank{2}}, map[int]Order{0: {Create: []barrier.Comm{7}}, 1: {Create: []barrier.Comm{7}, Nudge: []uint64{3}}}},
		{barrier.Effects{Read: true}, map[int]Order{0: {Read: true}, 1: {Read: true}}},
		{barrier.Effects{Drain: true}, map[int]Order{0: {Drain: true}, 1: {Drain: true}}},
		{barrier.Effects{ShutCalls: true, Cut: true}, map[int]Order{0: {ShutCalls: true, Keep: true}, 1: {ShutCalls: true, Keep: true}}},
	} {
		if got := k.ordersOf(c.e, 2); !reflect.DeepEqual(got, c.want) {
			t.Errorf("ordersOf(%+v) = %+v", c.e, got)
		}
	}
}

// TestBookCounts: a cut has the counts that were reported last, and the members get the communicators that
// are past.
func TestBookCounts(t *testing.T) {
	k := newLeaderState(openPair())
	for _, h := range []heardOf{
		{0, eventOf(Shut, 5, countOf(comm7, 0, 3)), ""},
		{1, eventOf(Shut, 9, countOf(comm7, 1, 2)), ""},
		{1, eventOf(Issued, 9, countOf(comm7, 1, 3)), ""},
	} {
		k.enterEvent(h.member, &h.event)
	}
	want := map[barrier.Key]uint64{{Comm: comm7, Member: 0}: 3, {Comm: comm7, Member: 1}: 3}
	if !maps.Equal(k.counts, want) {
		t.Errorf("after two reports, counts = %v", k.counts)
	}
	left := func(p *Place) { p.Left = true }
	for i, h := range []heardOf{{0, placeEvent(Left, 5, 0, left), ""}, {1, placeEvent(Left, 9, 1, left), ""}} {
		if past := k.pastComms(); len(past) != 0 {
			t.Errorf("after %d places were left, pastComms = %v, want none", i, past)
		}
		k.enterEvent(h.member, &h.event)
	}
	if past := k.pastComms(); !slices.Equal(past, []barrier.Comm{comm7}) {
		t.Errorf("after all places were left, pastComms = %v", past)
	}
}

// TestFailure: a failure names ranks as their members do, with the obstacle that each reported last.
func TestFailure(t *testing.T) {
	k := newLeaderState(openPair())
	k.enterEvent(1, &Event{Kind: Obstacle, Process: 9, Reason: "a kernel runs"})
	takeEffects(k)
	k.stepBarrier(barrier.Deadline{})
	err := k.nameRanks(k.out[0].Failed)
	const want = "no cut: deadline passed: the gate is not shut in ranks 0, 1; rank 0 is process 105 on device server 0; rank 1 is process 109 on device server 1 (a kernel runs)"
	if err.Error() != want {
		t.Errorf("nameRanks with an obstacle: %v", err)
	}
	if err := k.nameRanks(&barrier.Failure{Text: "x", Ranks: []barrier.Rank{-1, 0, 2}}); err.Error() != "no cut: x; rank 0 is process 105 on device server 0" {
		t.Errorf("nameRanks with ranks that do not exist: %v", err)
	}
}
