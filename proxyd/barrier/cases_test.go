// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package barrier

// The names of hand-made cases, by the behaviour that they show.
const (
	overlap     = "overlap"
	overlapWait = "overlap, blocking"
	peerSync    = "sync on what the peer was stopped before"
	rankZero    = "evaluation on rank 0 only"
	hostMessage = "host message behind the gate"
	hostFirst   = "host message before all else"
	eagerSend   = "eager send"
	shifted     = "shifted groups"
	creation    = "creation"
	destroyed   = "handle destroyed"
)

// cases are programs for which some simpler rule is wrong, and plain programs.
var cases = []program{
	{name: "nothing", ranks: []string{"", ""}},
	{name: "data parallel", comms: "A=0,1,2", ranks: []string{"A A W A", "A A W A", "A A W A"}},
	{name: overlap, comms: "A=0,1 B=1,2", ranks: []string{"A", "B A", "B"}},
	{name: overlapWait, comms: "A=0,1 B=1,2", ranks: []string{"A!", "B! A!", "B!"}},
	{name: peerSync, comms: "A=0,1", ranks: []string{"A! A!", "A! A!"}},
	{name: rankZero, comms: "A=0,1", ranks: []string{"A! X", "A!"}},
	{name: hostMessage, waits: true, comms: "A=0,1 B=0,2", ranks: []string{"A B@1 h>1 W", "h<0 A!", "B!"}},
	{name: hostFirst, comms: "A=0,1", waits: true, ranks: []string{"A A h>1 A!", "h<0 A A A!"}},
	{name: eagerSend, comms: "A=0,1", ranks: []string{">1! A!", "<0! A!"}},
	{name: "staged send", comms: "A=0,1", staged: true, ranks: []string{">1! A!", "<0! A!"}},
	{name: shifted, comms: "A=0,1", ranks: []string{">1 (>1 <1) (>1 <1) <1! A!", "(<0 >0) (<0 >0) (<0 >0) W A!"}},
	{name: creation, comms: "A=0,1,2", creates: "B=0,1", ranks: []string{"+B B! A!", "+B B! A!", "A!"}},
	{name: "creation behind a collective", comms: "A=1,2", creates: "B=0,1", ranks: []string{"+B B!", "A! +B B!", "A!"}},
	{name: "creation that one of them needs", comms: "A=0,1 C=0,2", creates: "B=0,1", ranks: []string{"+B A C", "+B A", "C"}},
	{name: "two threads per rank", comms: "A=0,1 B=0,1", ranks: []string{"A! A! | B@1! B@1", "A! A! | B@1 B@1 W"}},
	{name: "another order on two streams", comms: "A=0,1 B=0,1", ranks: []string{"A B@1 W", "B@1 A W"}},
	{name: "tensor and pipeline", comms: "T=0,1 U=2,3", staged: true, ranks: []string{"T >2!", "T!", "<0 U!", "U!"}},
	{name: "tensor and pipeline, 2x2", large: true, comms: "T=0,1 U=2,3", staged: true, ranks: []string{"T >2!", "T >3!", "<0 U!", "<1 U!"}},
	{name: "graph with two collectives", comms: "A=0,1 B=0,2", ranks: []string{"(A B) A", "A A!", "B"}},
	{name: "ring of groups", ranks: []string{"(>1 <2) (>1 <2)", "(>2 <0) (>2 <0)", "(>0 <1) (>0 <1)"}},
	{name: "exit of one rank", comms: "A=0,1,2 B=0,1", exits: []Rank{0, 2}, ranks: []string{"A! B!", "A! B!", "A"}},
	{name: "exit with an eager send on its way", exits: []Rank{0}, ranks: []string{">1", "<0!"}},
	{name: "one process with two devices", comms: "A=0,0,1", ranks: []string{"(A.0 A.1) A.0 A.1@1", "A A!"}},
	{name: "two devices, a thread each", comms: "A=0,0,1", ranks: []string{"A.0 A.0! | A.1@1 A.1@1!", "A A!"}},
	{name: destroyed, comms: "A=0,1 B=0,1", exits: []Rank{1}, ranks: []string{"A -A B", "A B! -A -B"}},
	{name: "communicator aborted", aborts: true, comms: "A=0,1 B=0,1", ranks: []string{"A A B!", "A! ~A B!"}},
}

// caseWorld returns the world of the case of that name.
func caseWorld(name string) *world {
	for _, p := range cases {
		if p.name == name {
			return newWorld(p)
		}
	}
	panic("no case " + name)
}
