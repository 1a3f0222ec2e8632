// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package splice

import (
	"cmp"
	"slices"
)

// Results decides for a device which operations of its ranks run, where all memory that an operation reads can be
// known: on the software GPU. The first rank that asks for an operation runs the operation on its own memory, and
// Results keeps the written bytes. A rank that asks for the same operation later, with the same bytes in all
// memory that it reads, takes these bytes. So no rank waits for another, no operation is carried out for a rank that
// has not asked, and no rank can see a difference.
//
// The caller makes Records. Equal Records must mean: the same code with the same parameters, and the same bytes at
// the same addresses in all memory that the operation can reach.
//
// Making a Record costs time, because the bytes have to be read. Results learns for each Site whether that is worth
// it. Results has no bytes, clocks and goroutines, and is not safe for concurrent use.
type Results struct {
	budget  uint64 // bytes of kept results, at most
	perCost uint64 // bytes that are read for a unit of an operation's cost, at most
	sites   map[Site]*site
	kept    map[Record]*keptResult
	order   []*keptResult // the oldest first
}

// Result has the bytes that an operation wrote. The last Drop frees the Result.
type Result interface {
	Size() uint64 // of the memory that the Result takes now beside the ranks' own
	Hold()        // one more use; Drop must follow
	Drop()
}

// Rank is a rank's number. No two ranks of a device have the same, ever.
type Rank uint64

// Site is a place of a program: a kernel, how it is launched, and where its parameters point to.
type Site [32]byte

// Record stands for an operation with all memory that the operation reads.
type Record [32]byte

// Span is a piece of memory.
type Span struct{ Base, Size uint64 }

// Plan tells a rank how to carry out an operation.
type Plan struct {
	Turn    uint64
	Compare bool   // make a Record and ask for the result
	More    []Span // that the Record must have beside the memory that the parameters point to
	Parts   []Span // that the Record has in the place of all memory above, unless nil
	// Learn: run the operation, without a Record, and tell LearnParts which parts of memory the operation has accessed.
	// Cost is the cost of the last run.
	Learn bool
	Cost  uint64
	Why   Reason // why neither compared nor learned; 0: compared or learned, or the cost is not known yet
}

// Reason is why an operation is not compared.
type Reason uint8

// The reasons.
const (
	Dear     Reason = iota + 1 // to read the memory would take longer than the operation does
	Differed                   // the Site's Records have differed, so only some turns are compared
	Refused                    // the Site was refused, or reads too many Spans
)

// site has the facts that are known of a Site.
type site struct {
	parts  []Span          // pieces of memory that the operation accesses, unless nil
	learn  bool            // parts are to be learned
	learnt int             // how often parts were learned
	reads  []Span          // pieces that the operation reads beside the memory that its parameters point to
	asked  map[Rank]uint64 // how often each rank has asked
	first  [sameTurns]Record
	turn   [sameTurns]uint64 // the turn of each Record in first, plus 1
	misses uint              // turns in a row at which Records differed, and no result was taken
	missed uint64            // the last turn that counts, or does not count because a result was taken, plus 1
	shared bool              // a result was taken
	cost   uint64            // of the last run; 0: no run has ended
	never  bool
}

// keptResult is the Result of an operation, kept for the ranks that may still take the Result.
type keptResult struct {
	record Record
	maker  Rank
	taken  map[Rank]bool
	takers int // ranks that may still take the result
	Result
}

const (
	sameTurns  = 8  // turns of a Site for which the first Record is known
	firstPause = 4  // after a miss at a Site of which no results were taken, each 2^firstPause-th turn is compared
	mostPause  = 8  // after many misses, each 2^mostPause-th turn is compared
	mostReads  = 16 // Spans that a Site reads beside its parameters'
	mostLearnt = 3  // times that the parts of a Site are learned
	mostParts  = 256

	sharedMisses = 3       // in a row, until parts are learned of a Site of which results were taken
	firstBytes   = 4 << 20 // that are read for an operation of unknown cost
	mostSites    = 1 << 14
	mostKept     = 1 << 12
)

// NewResults makes a Results that keeps at most budget bytes, and has at most perCost bytes read for a unit of an
// operation's cost: an operation that costs less is run.
func NewResults(budget, perCost uint64) *Results {
	return &Results{budget: budget, perCost: perCost, sites: map[Site]*site{}, kept: map[Record]*keptResult{}}
}

// Ask begins an operation of a rank: a turn at a Site. The Spans of the Site have this number of bytes.
func (r *Results) Ask(rank Rank, at Site, bytes uint64) Plan {
	s := r.sites[at]
	if s == nil {
		if len(r.sites) == mostSites {
			r.sites = map[Site]*site{} // a program with ever new Sites cannot share results
		}
		s = &site{asked: map[Rank]uint64{}}
		r.sites[at] = s
	}
	p := Plan{Turn: s.asked[rank], Cost: s.cost}
	s.asked[rank]++
	if s.parts == nil {
		bytes += sumSizes(s.reads)
	} else {
		bytes = sumSizes(s.parts)
	}
	// Where a rank has compared at this turn, all do: that two ranks differ does not mean that a third rank differs, too.
	begun := s.turn[p.Turn%sameTurns] == p.Turn+1
	switch {
	case s.never:
		p.Why = Refused
	case s.cost == 0 && bytes > firstBytes:
	case s.cost > 0 && bytes/r.perCost > s.cost && !s.learn:
		p.Learn = s.parts == nil && s.learnt < mostLearnt && p.Turn%(1<<firstPause) == 1<<firstPause-1
		if !p.Learn {
			p.Why = Dear
		}
	case p.Turn%s.pauseInTurns() != 0 && !begun:
		p.Why = Differed
	case s.learn:
		p.Learn = true
	default:
		p.Compare, p.More, p.Parts = true, s.reads, s.parts
	}
	return p
}

func sumSizes(spans []Span) (n uint64) {
	for _, x := range spans {
		n += x.Size
	}
	return n
}

// pauseInTurns is the distance between turns that are compared. All ranks compare at the same turns. If the Records of a
// Site have differed from the first on, the Site most often has data that each rank has for itself, so the pause grows fast. Where results were
// taken before, such as at a Site that is alike at every second turn, the pause grows slowly.
func (s *site) pauseInTurns() uint64 {
	grow := uint(firstPause)
	if s.shared {
		grow = 1
	}
	return 1 << min(s.misses*grow, mostPause)
}

// Take returns the Result of an operation that another rank has run, or false: then this rank runs the operation. The
// caller drops the Result.
func (r *Results) Take(rank Rank, at Site, turn uint64, record Record) (result Result, ok bool) {
	s := r.sites[at]
	if s == nil {
		return nil, false
	}
	k := r.kept[record]
	if k != nil && k.maker != rank && !k.taken[rank] {
		if s.missed == turn+1 {
			s.learn = false // some ranks of this turn are alike
		}
		s.misses, s.missed, s.shared = 0, turn+1, true
		k.taken[rank] = true
		k.Hold()
		if k.takers--; k.takers <= 0 {
			r.dropResult(k)
		}
		return k.Result, true
	}
	// In programs that are alike, a turn is the same operation on each rank. If another rank has come to this turn with
	// another Record, the programs differ at this Site.
	slot := turn % sameTurns
	switch {
	case s.turn[slot] != turn+1:
		s.turn[slot], s.first[slot] = turn+1, record
	case s.first[slot] != record && s.missed != turn+1:
		s.misses++
		s.missed = turn + 1 // a miss of several ranks at a turn counts once
		// Perhaps the Records differ only in bytes that the operation does not access.
		s.learn = s.parts == nil && s.learnt < mostLearnt && (!s.shared || s.misses >= sharedMisses)
	}
	return nil, false
}

// Learn notes the cost of an operation and the accessed memory. Learn returns whether the Record, made of
// the memory had, covers all accessed memory: only then may the operation's result be kept.
func (r *Results) Learn(at Site, cost uint64, had, accessed []Span) bool {
	s := r.sites[at]
	if s == nil {
		return false
	}
	s.cost = max(cost, 1)
	complete := true
	for _, x := range accessed {
		if slices.ContainsFunc(had, x.isIn) {
			continue
		}
		complete = false
		if s.parts == nil && !slices.Contains(s.reads, x) {
			s.reads = append(slices.Clone(s.reads), x)
		}
	}
	if complete {
		return !s.never
	}
	s.turn = [sameTurns]uint64{} // earlier Records cover less memory, so a difference from them does not count
	switch {
	case s.parts != nil: // the operation accesses other parts than before
		if s.learn = s.learnt < mostLearnt; !s.learn {
			s.parts, s.reads = nil, nil
		}
	case len(s.reads) > mostReads:
		s.reads, s.never = nil, true
	}
	return false
}

// isIn tells whether all of x lies in y.
func (x Span) isIn(y Span) bool {
	return x.Base >= y.Base && x.Base-y.Base <= y.Size && x.Size <= y.Size-(x.Base-y.Base)
}

// Measure notes the cost of an operation that ran without a Record.
func (r *Results) Measure(at Site, cost uint64) {
	if s := r.sites[at]; s != nil && s.cost == 0 {
		s.cost = max(cost, 1)
	}
}

// LearnParts notes of which parts of memory an operation has accessed bytes: the Spans of the Site's Records from now
// on. known is false if these parts were not found out, or if the parts are the memory that the Records have in any
// case.
func (r *Results) LearnParts(at Site, cost uint64, parts []Span, known bool) {
	s := r.sites[at]
	if s == nil {
		return
	}
	s.cost, s.learn = max(cost, 1), false
	s.learnt++
	s.turn, s.misses = [sameTurns]uint64{}, 0
	all := joinSpans(append(slices.Clone(s.parts), parts...))
	if s.parts = all; !known || len(all) == 0 || len(all) > mostParts {
		s.parts, s.learnt = nil, mostLearnt
	}
}

// joinSpans sorts Spans. Spans that overlap become a single Span.
func joinSpans(list []Span) (out []Span) {
	slices.SortFunc(list, func(a, b Span) int { return cmp.Compare(a.Base, b.Base) })
	for _, x := range list {
		last := len(out) - 1
		if last < 0 || out[last].Base+out[last].Size <= x.Base {
			out = append(out, x)
			continue
		}
		out[last].Size = max(out[last].Size, x.Base+x.Size-out[last].Base)
	}
	return out
}

// Forget forgets the memory that a Site reads, because some of it has been freed.
func (r *Results) Forget(at Site) {
	if s := r.sites[at]; s != nil {
		s.reads, s.parts, s.turn = nil, nil, [sameTurns]uint64{}
	}
}

// Refuse notes that the operations of a Site have effects beside their writes, or read memory that is not only the
// rank's. From here on they run for each rank.
func (r *Results) Refuse(at Site) {
	if s := r.sites[at]; s != nil {
		s.never = true
	}
}

// Keep keeps the Result of an operation for a number of other ranks. The oldest results are dropped to make room.
func (r *Results) Keep(rank Rank, record Record, others int, result Result) {
	size := result.Size()
	if others < 1 || size > r.budget || r.kept[record] != nil {
		return
	}
	if len(r.order) == mostKept {
		r.dropResult(r.order[0])
	}
	for held := r.Held(); len(r.order) > 0 && held+size > r.budget; {
		held -= r.order[0].Size()
		r.dropResult(r.order[0])
	}
	result.Hold()
	k := &keptResult{record: record, maker: rank, taken: map[Rank]bool{}, takers: others, Result: result}
	r.kept[record] = k
	r.order = append(r.order, k)
}

// dropResult forgets a result.
func (r *Results) dropResult(k *keptResult) {
	delete(r.kept, k.record)
	r.order = slices.DeleteFunc(r.order, func(o *keptResult) bool { return o == k })
	k.Drop()
}

// Held returns the number of bytes that kept results take, beside the ranks' own memory.
func (r *Results) Held() (n uint64) {
	for _, k := range r.order {
		n += k.Size()
	}
	return n
}
