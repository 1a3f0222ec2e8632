// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package barrier

import "slices"

// The limits of a program.
const (
	maxRanks   = 4
	maxThreads = 8
	maxComms   = 8
	maxMeets   = 4
	maxKeys    = 40
	maxParts   = 6
)

// job is the state of the program and its devices, without the barrier. It has arrays, because it
// is copied often and these copies are cheap.
type job struct {
	pcs    [maxThreads]uint8
	counts [maxKeys]uint8             // issued
	done   [maxKeys]uint8             // completed
	mail   [maxRanks * maxRanks]uint8 // by sender and receiver: host messages on the way
	dead   [maxRanks]bool
	gone   [maxRanks]bool // exited
	broken [maxComms]bool // aborted
	met    [maxMeets]meetState
	flight []item // in the order in which they were issued
}

// item is an operation in flight: the step that issued the operation, and of each part the
// number on its line and whether the part has completed.
type item struct {
	thread, pc uint8
	done       uint8 // bits
	seq        [maxParts]uint8
}

// meetState is how far a creation is.
type meetState struct {
	arrived uint8 // bits by rank
	told    uint8 // bits by rank: the leader knows
	phase   uint8
}

const (
	open     uint8 = iota // not all ranks are there
	held                  // all ranks are there, and the leader was told
	running               // the real creation has begun
	finished              // and has ended
)

func (j *job) clone() job {
	n := *j
	n.flight = slices.Clone(j.flight)
	return n
}

// stepAt is the step before which a thread stands, nil at its end and in a dead rank.
func (j *job) stepAt(w *world, t int) *step {
	th := &w.threads[t]
	if int(j.pcs[t]) == len(th.steps) || j.dead[th.rank] {
		return nil
	}
	return &th.steps[j.pcs[t]]
}

// issueStep carries out the step of a thread that issues.
func (j *job) issueStep(w *world, t int) {
	it := item{thread: uint8(t), pc: j.pcs[t]}
	for i, k := range j.stepAt(w, t).keys {
		j.counts[k]++
		it.seq[i] = j.counts[k]
	}
	j.flight = append(j.flight, it)
	j.pcs[t]++
}

func (w *world) step(it item) *step { return &w.threads[it.thread].steps[it.pc] }

// isHead says whether the i-th operation in flight is the first of its stream.
func (j *job) isHead(w *world, i int) bool {
	it := j.flight[i]
	for _, o := range j.flight[:i] {
		if w.threads[o.thread].rank == w.threads[it.thread].rank && w.step(o).stream == w.step(it).stream {
			return false
		}
	}
	return true
}

// findPart finds the seq-th operation under a key among the heads of streams.
func (j *job) findPart(w *world, key int, seq uint8) (i, p int, ok bool) {
	for i, it := range j.flight {
		for p, k := range w.step(it).keys {
			if k == key && it.seq[p] == seq && j.isHead(w, i) {
				return i, p, true
			}
		}
	}
	return 0, 0, false
}

// readyParts lists the parts that complete together with part p of the i-th operation in
// flight, nil if the part cannot complete now.
func (j *job) readyParts(w *world, i, p int) [][2]int {
	it := j.flight[i]
	k, seq := w.step(it).keys[p], it.seq[p]
	key := w.keys[k]
	var together [][2]int
	switch {
	case j.broken[slices.IndexFunc(w.comms, func(c Communicator) bool { return c.Comm == key.Comm })]:
		return [][2]int{{i, p}}
	case key.Kind == Send && !w.staged:
		return [][2]int{{i, p}}
	case key.Kind == Recv && !w.staged:
		from := w.keyOf[Key{key.Comm, key.Peer, Send, key.Member}]
		if j.done[from] < seq {
			return nil
		}
		return [][2]int{{i, p}}
	}
	for _, o := range w.peers[w.line[k]] {
		oi, op, ok := j.findPart(w, o, seq)
		if !ok {
			return nil
		}
		together = append(together, [2]int{oi, op})
	}
	return together
}

// completeAll carries out all completions that devices can make. Completions do not hinder each
// other, so checking a single order is enough.
func (j *job) completeAll(w *world) (moved bool) {
	for again := true; again; {
		again = false
		for i := 0; i < len(j.flight) && !again; i++ {
			if !j.isHead(w, i) {
				continue
			}
			for p := range w.step(j.flight[i]).keys {
				if j.flight[i].done&(1<<p) != 0 {
					continue
				}
				for _, ip := range j.readyParts(w, i, p) {
					it := &j.flight[ip[0]]
					it.done |= 1 << ip[1]
					j.done[w.step(*it).keys[ip[1]]]++
					again, moved = true, true
				}
			}
		}
		j.flight = slices.DeleteFunc(j.flight, func(it item) bool {
			return it.done == 1<<len(w.step(it).keys)-1
		})
	}
	return moved
}

// isFlying says whether an operation of a rank, or with t ≥ 0 of that thread, is in flight.
func (j *job) isFlying(w *world, r Rank, t int) bool {
	return slices.ContainsFunc(j.flight, func(it item) bool {
		return w.threads[it.thread].rank == r && (t < 0 || int(it.thread) == t)
	})
}

// told is something the host code of a rank says to other parties than its program.
type told struct {
	rank Rank
	what stepKind // create, destroy, abort
	comm int
}

// settleJob lets devices and host code go on until only steps are left that concern the barrier:
// issuing, and exits. No other step prevents another step, so their order does not matter either.
// The result has the facts that the leader has to be told.
func (j *job) settleJob(w *world) []told {
	var out []told
	for moved := true; moved; {
		moved = j.completeAll(w)
		for t, th := range w.threads {
			s := j.stepAt(w, t)
			if s == nil {
				continue
			}
			goOn := false
			switch s.kind {
			case wait:
				goOn = !j.isFlying(w, th.rank, t)
			case hostSend:
				j.mail[int(th.rank)*w.n+int(s.peer)]++
				goOn = true
			case hostRecv:
				box := &j.mail[int(s.peer)*w.n+int(th.rank)]
				if goOn = *box > 0; goOn {
					*box--
				}
			case create:
				m := &j.met[s.comm]
				if m.arrived&(1<<th.rank) == 0 {
					m.arrived |= 1 << th.rank
					out = append(out, told{th.rank, create, s.comm})
				}
				goOn = m.phase == finished
			case destroy, abort:
				if goOn = s.kind == abort || !j.isFlying(w, th.rank, t); goOn {
					j.broken[s.comm] = j.broken[s.comm] || s.kind == abort
					out = append(out, told{th.rank, s.kind, s.comm})
				}
			}
			if goOn {
				j.pcs[t]++
				moved = true
			}
		}
	}
	return out
}

// topOf is the highest number on the line of a key.
func (j *job) topOf(w *world, key int) uint8 {
	var n uint8
	for _, k := range w.peers[w.line[key]] {
		n = max(n, j.counts[k])
	}
	return n
}

// describeTorn names an operation or creation that would be torn if this state were the cut, or
// returns "".
func (j *job) describeTorn(w *world) string {
	for k := range w.keys {
		c := slices.IndexFunc(w.comms, func(c Communicator) bool { return c.Comm == w.keys[k].Comm })
		if j.counts[k] < j.topOf(w, k) && !j.broken[c] {
			return "half-issued: " + w.keys[k].String()
		}
	}
	if len(j.flight) > 0 {
		return "in flight: " + w.keys[w.step(j.flight[0]).keys[0]].String()
	}
	for i, m := range w.meets {
		if j.met[i].phase == running {
			return "half-created: " + string(rune('A'+m.ID-1))
		}
	}
	return ""
}

// isOver says whether every thread has ended, or will never issue again.
func (j *job) isOver(w *world) bool {
	for t := range w.threads {
		if s := j.stepAt(w, t); s != nil && s.kind != forever {
			return false
		}
	}
	return true
}

// isValid says whether the program, left alone, always ends with everything matched, and uses
// no communicator before its creation. Where no rank has two threads, the order in which ranks
// go on makes no difference, and a single order is tried; else all are.
func (w *world) isValid() bool {
	_, oneOrder := w.issuedKeys()
	seen := map[string]bool{}
	var try func(j job) bool
	try = func(j job) bool {
		for changed := true; changed; {
			changed = false
			j.settleJob(w)
			for i := range w.meets {
				if m := &j.met[i]; m.phase != finished && m.arrived == maskOf(w.meets[i].Ranks) {
					m.phase, changed = finished, true
				}
			}
		}
		key := string(j.pcs[:])
		for _, it := range j.flight {
			key += string(append(it.seq[:], it.thread, it.pc, it.done))
		}
		if seen[key] {
			return true
		}
		seen[key] = true
		moved := false
		for t := range w.threads {
			s := j.stepAt(w, t)
			if s == nil || s.kind != issue || moved && oneOrder {
				continue
			}
			moved = true
			next := j.clone()
			next.issueStep(w, t)
			if !j.areMade(w, s) || !try(next) {
				return false
			}
		}
		return moved || j.isOver(w) && j.describeTorn(w) == ""
	}
	return try(job{})
}

// areMade says whether all communicators that a step uses exist.
func (j *job) areMade(w *world, s *step) bool {
	for _, k := range s.keys {
		for i, m := range w.meets {
			if m.ID == uint64(w.keys[k].Comm) && j.met[i].phase != finished {
				return false
			}
		}
	}
	return true
}

func maskOf(ranks []Rank) (m uint8) {
	for _, r := range ranks {
		m |= 1 << r
	}
	return m
}
