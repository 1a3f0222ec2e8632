// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package barrier

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The programs that the model checker runs are written in a little language, a single string
// per rank, " | " between its threads:
//
//	A        a collective on communicator A, stream-ordered: the thread goes on at once
//	A!       the same, and the thread waits for this and all its earlier operations
//	B@1      on stream 1 instead of 0
//	A.1      issued by member 1, where a rank has several
//	>2 <0    send to rank 2, receive from rank 0 (on communicator P, in which all ranks are)
//	(>1 <1)  a group, or a graph launch: one operation
//	W        wait for everything that this thread issued
//	h>1 h<0  a message to, from a rank by other means: TCP, a file
//	+N       create communicator N
//	-A       destroy the handle of A, which waits for the operations issued on it
//	~A       abort A
//	X        endless host work
type program struct {
	name    string
	comms   string // "A=0,1 B=1,2": members by rank
	creates string // the same, for communicators that the program makes itself
	ranks   []string
	staged  bool   // a send waits for its receive; else it completes in a buffer
	exits   []Rank // these may exit when their threads have ended
	large   bool   // for the long run
	aborts  bool   // the program aborts a communicator: later operations of other ranks there do not matter
	waits   bool   // its host code can wait for a rank that is at its gate
}

type stepKind uint8

const (
	issue stepKind = iota
	wait
	hostSend
	hostRecv
	create
	destroy
	abort
	forever
)

// step is a single step of a thread.
type step struct {
	kind   stepKind
	stream uint8
	keys   []int // issue: the keys that the operation counts, indices of world.keys
	peer   Rank  // hostSend, hostRecv
	comm   int   // create: index of world.meets; destroy, abort: of world.comms
}

type thread struct {
	rank  Rank
	steps []step
}

// world is a program made ready to run.
type world struct {
	program
	n       int
	comms   []Communicator // communicators that are there from the start come first
	first   int            // how many do
	meets   []Rendezvous   // the creations of the other communicators
	threads []thread
	keys    []Key
	owner   []Rank  // of each key
	line    []int   // of each key: the same number for all that are compared
	peers   [][]int // by line: its keys
	mine    [][]int // by rank: its keys
	keyOf   map[Key]int
}

// commOf is the communicator of a name.
func commOf(name string) Comm { return Comm(name[0] - 'A' + 1) }

func parseComms(text string) []Communicator {
	var comms []Communicator
	for _, f := range strings.Fields(text) {
		name, members, _ := strings.Cut(f, "=")
		c := Communicator{Comm: commOf(name)}
		for _, m := range strings.Split(members, ",") {
			c.Members = append(c.Members, Rank(parseNumber(m)))
		}
		comms = append(comms, c)
	}
	return comms
}

func parseNumber(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

// newWorld reads a program. newWorld panics on a program that cannot be read: all programs are
// written in these tests.
func newWorld(p program) *world {
	w := &world{program: p, n: len(p.ranks), keyOf: make(map[Key]int)}
	w.comms = parseComms(p.comms)
	all := Communicator{Comm: commOf("P")}
	for r := range w.n {
		all.Members = append(all.Members, Rank(r))
	}
	w.comms = append(w.comms, all)
	w.first = len(w.comms)
	for _, c := range parseComms(p.creates) {
		ranks := slices.Compact(slices.Sorted(slices.Values(c.Members)))
		w.meets = append(w.meets, Rendezvous{ID: uint64(c.Comm), Ranks: ranks, Makes: []Communicator{c}})
		w.comms = append(w.comms, c)
	}
	for r, text := range p.ranks {
		for _, t := range strings.Split(text, "|") {
			w.threads = append(w.threads, thread{Rank(r), w.parseThread(Rank(r), t)})
		}
	}
	lines := map[line]int{}
	for i, k := range w.keys {
		if _, ok := lines[k.comparedLine()]; !ok {
			lines[k.comparedLine()] = len(w.peers)
			w.peers = append(w.peers, nil)
		}
		l := lines[k.comparedLine()]
		w.line = append(w.line, l)
		w.peers[l] = append(w.peers[l], i)
	}
	w.mine = make([][]int, w.n)
	for i, r := range w.owner {
		w.mine[r] = append(w.mine[r], i)
	}
	return w
}

func (w *world) parseThread(r Rank, text string) []step {
	var steps []step
	var group *step
	add := func(s step) {
		if group != nil {
			group.keys = append(group.keys, s.keys...)
			return
		}
		steps = append(steps, s)
	}
	for _, word := range strings.Fields(text) {
		body := strings.TrimSuffix(word, "!")
		blocks := body != word
		if rest, ok := strings.CutPrefix(body, "("); ok {
			group, body = &step{kind: issue}, rest
		}
		body, last := strings.CutSuffix(body, ")")
		s := step{kind: issue}
		if name, stream, ok := strings.Cut(body, "@"); ok {
			body, s.stream = name, uint8(parseNumber(stream))
		}
		switch {
		case body == "W":
			s.kind = wait
		case body == "X":
			s.kind = forever
		case strings.HasPrefix(body, "h>"):
			s.kind, s.peer = hostSend, Rank(parseNumber(body[2:]))
		case strings.HasPrefix(body, "h<"):
			s.kind, s.peer = hostRecv, Rank(parseNumber(body[2:]))
		case body[0] == '+':
			s.kind = create
			s.comm = slices.IndexFunc(w.meets, func(m Rendezvous) bool { return m.ID == uint64(commOf(body[1:])) })
		case body[0] == '-', body[0] == '~':
			s.kind = map[byte]stepKind{'-': destroy, '~': abort}[body[0]]
			s.comm = slices.IndexFunc(w.comms, func(c Communicator) bool { return c.Comm == commOf(body[1:]) })
		case body[0] == '>':
			s.keys = []int{w.keyIndex(Key{commOf("P"), int32(r), Send, int32(parseNumber(body[1:]))})}
		case body[0] == '<':
			s.keys = []int{w.keyIndex(Key{commOf("P"), int32(r), Recv, int32(parseNumber(body[1:]))})}
		default:
			s.keys = []int{w.keyIndex(w.collectiveKey(r, body))}
		}
		add(s)
		if last {
			steps, group = append(steps, *group), nil
		}
		if blocks {
			steps = append(steps, step{kind: wait})
		}
	}
	return steps
}

// collectiveKey is the key of "A" or "A.1".
func (w *world) collectiveKey(r Rank, text string) Key {
	c := w.communicatorOf(commOf(text))
	k := Key{Comm: c.Comm, Member: int32(slices.Index(c.Members, r))}
	if _, m, ok := strings.Cut(text, "."); ok {
		k.Member = int32(parseNumber(m))
	}
	if k.Member < 0 || c.Members[k.Member] != r {
		panic(fmt.Sprintf("%s: rank %d: %s", w.name, r, text))
	}
	return k
}

func (w *world) communicatorOf(c Comm) Communicator {
	return w.comms[slices.IndexFunc(w.comms, func(x Communicator) bool { return x.Comm == c })]
}

// keyIndex is the index of a key, and makes all keys known that are compared with this key.
func (w *world) keyIndex(k Key) int {
	c := w.communicatorOf(k.Comm)
	for _, o := range k.comparedLine().listKeys(len(c.Members)) {
		if _, ok := w.keyOf[o]; !ok {
			w.keyOf[o] = len(w.keys)
			w.keys = append(w.keys, o)
			w.owner = append(w.owner, c.Members[o.Member])
		}
	}
	return w.keyOf[k]
}

// String is the program in the notation of the tests.
func (p program) String() string {
	return fmt.Sprintf("{comms: %q, creates: %q, ranks: %#v, staged: %v, exits: %v}", p.comms, p.creates, p.ranks, p.staged, p.exits)
}
