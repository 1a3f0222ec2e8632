// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package splice

import (
	"crypto/sha256"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// The model: ranks with memory of a few words, which carry out operations as a device does that asks a Results.
// Besides, each rank carries out the same operations on a device of its own. Each operation of a rank is two or three
// steps, and the steps of all ranks are tried in every order.

// words is a rank's memory.
type words [8]uint64

// access gives an operation the memory, and notes which words the operation reads and writes.
type access struct {
	*words
	touched, written map[int]bool
}

func (a access) get(i int) uint64    { a.touched[i] = true; return a.words[i] }
func (a access) set(i int, v uint64) { a.touched[i], a.written[i] = true, true; a.words[i] = v }

// operation is an operation of a rank. An operation of site 0 runs for each rank.
type operation struct {
	site   byte
	param  uint64 // a parameter that is no address
	points []Span // the allocations that the other parameters point to
	do     func(param uint64, a access)
	prints bool
}

// model is a program of ranks.
type model struct {
	name   string
	begin  []words // the memory of each rank
	ranks  [][]operation
	allocs []Span
	dear   bool // to compare the segment costs more than an operation
	once   bool // in some order of the steps a rank takes a result
}

// twist is a deliberate mistake of the device. Tests make these mistakes to see that the check finds them.
type twist uint8

const (
	right        twist = iota
	noParams           // parameters that are no addresses are not compared
	noBytes            // memory is not compared
	keepsAll           // a result is kept although the operation accessed more than was compared
	noMore             // memory that earlier operations of the Site have accessed is not compared
	noHold             // a result may be gone before a rank has copied it
	noEffects          // an operation that prints is kept
	staleCopy          // memory that a copy has written keeps its old Content
	staleRun           // so does memory that a run of an operation has written
	staleTake          // so does memory that a result was written to
	staleOverlap       // so does memory of which only a part was written
	lastTwist
)

// values is a Result: the words of each piece of memory in which the operation has written.
type values struct {
	of      map[int]uint64
	is      []contentPiece // the pieces
	users   int
	neverIn bool // noHold
}

func (v *values) Size() uint64 { return uint64(8 * len(v.of)) }

func (v *values) Hold() {
	if !v.neverIn || v.users == 0 {
		v.users++
	}
}

func (v *values) Drop() {
	if v.users--; v.users <= 0 {
		v.of = nil // the memory is given to other ranks
	}
}

// phase is a rank's progress with its operation.
type phase uint8

const (
	ready phase = iota
	asked       // the Record is made, if there is a Record
	takes       // the result is about to be copied
	ran
)

// member is a rank of the model.
type member struct {
	next             int // operation
	phase            phase
	plan             Plan
	had              []Span
	record           Record
	result           *values
	seen             access
	memory, alone    words
	contents         Contents
	printed, shouted int // on the shared device, and on the rank's own
}

// world is the model at a moment.
type world struct {
	*model
	twist   twist
	results *Results
	members []member
	taken   int // results
	byParts int // of these, results of operations of which parts are compared
	wrong   string
}

func newWorld(m *model, t twist) *world {
	w := &world{model: m, twist: t, results: NewResults(64, 1)}
	for _, b := range m.begin {
		w.members = append(w.members, member{memory: b, alone: b})
	}
	return w
}

// cost returns the cost of an operation. To read a word costs 1.
func (w *world) cost() uint64 {
	if w.dear {
		return 3
	}
	return 100
}

// canStep tells whether a rank has something left to do.
func (w *world) canStep(r int) bool { return w.members[r].next < len(w.ranks[r]) }

// step has a rank do its next step.
func (w *world) step(r int) {
	m := &w.members[r]
	o := &w.ranks[r][m.next]
	switch m.phase {
	case ready:
		if o.site == 0 {
			a := newAccess(&m.memory)
			o.do(o.param, a)
			if w.twist != staleCopy {
				w.forgetWritten(m, w.pieces(&member{}, a.written))
			}
			w.finish(r)
			return
		}
		w.ask(m, o, Rank(r))
	case asked:
		if m.plan.Compare {
			if got, ok := w.results.Take(Rank(r), Site{o.site}, m.plan.Turn, m.record); ok {
				m.phase, m.result = takes, got.(*values)
				return
			}
		}
		m.seen, m.phase = newAccess(&m.memory), ran
		o.do(o.param, m.seen)
		if w.twist != staleRun {
			w.forgetWritten(m, w.pieces(m, m.seen.written))
		}
		if o.prints {
			m.printed++
		}
	case takes:
		if m.result.of == nil {
			w.wrong = fmt.Sprintf("rank %d copies a result that is gone", r)
		}
		for i, v := range m.result.of {
			m.memory[i] = v
		}
		if w.twist != staleTake {
			w.holdResult(m, m.result.is)
		}
		m.result.Drop()
		if w.taken++; m.plan.Parts != nil {
			w.byParts++
		}
		w.finish(r)
	case ran:
		w.learn(m, o, Rank(r))
		w.finish(r)
	}
}

// forgetWritten notes that pieces of a rank's memory were written.
func (w *world) forgetWritten(m *member, pieces []Span) {
	if w.twist != staleOverlap {
		m.contents.ForgetWritten(pieces)
		return
	}
	m.contents.pieces = slices.DeleteFunc(slices.Clone(m.contents.pieces), func(x contentPiece) bool { return slices.Contains(pieces, x.at) })
}

// holdResult notes that pieces of a rank's memory hold a result.
func (w *world) holdResult(m *member, result []contentPiece) {
	var pieces []Span
	for _, x := range result {
		pieces = append(pieces, x.at)
	}
	w.forgetWritten(m, pieces)
	for _, x := range result {
		m.contents.NoteContent(x.at, x.is)
	}
}

// sum returns the hash of a piece of a rank's memory, from its Content if known.
func (m *member) sum(x Span) Sum {
	c := m.contents.FindContent(x)
	if c == nil {
		c = &Content{}
		m.contents.NoteContent(x, c)
	}
	if _, ok := c.KnownSum(); !ok {
		c.SetSum(sha256.Sum256(fmt.Append(nil, m.memory[x.Base:x.Base+x.Size])))
	}
	sum, _ := c.KnownSum()
	return sum
}

func newAccess(m *words) access { return access{m, map[int]bool{}, map[int]bool{}} }

// ask begins an operation, and makes its Record.
func (w *world) ask(m *member, o *operation, r Rank) {
	m.phase = asked
	m.plan = w.results.Ask(r, Site{o.site}, sumSizes(o.points))
	m.had = o.points
	if m.plan.Parts != nil {
		m.had = m.plan.Parts
	} else if m.plan.Compare {
		m.had = append(slices.Clone(m.had), m.plan.More...)
	}
	compared := m.had
	if w.twist == noMore && m.plan.Parts == nil {
		compared = o.points
	}
	text := fmt.Sprint(o.site, m.had)
	if w.twist != noParams {
		text += fmt.Sprint(" with ", o.param)
	}
	for _, x := range compared {
		if w.twist != noBytes {
			text += fmt.Sprint(" ", m.sum(x))
		}
	}
	m.record = sha256.Sum256([]byte(text))
}

// learn tells the Results which words an operation has accessed in its run, and keeps its result.
func (w *world) learn(m *member, o *operation, r Rank) {
	at := Site{o.site}
	switch {
	case m.plan.Learn:
		var parts []Span
		for _, i := range slices.Sorted(maps.Keys(m.seen.touched)) {
			parts = append(parts, Span{uint64(i), 1})
		}
		w.results.LearnParts(at, w.cost(), parts, true)
		return
	case !m.plan.Compare:
		w.results.Measure(at, w.cost())
		return
	case o.prints && w.twist != noEffects:
		w.results.Refuse(at)
		return
	}
	if !w.results.Learn(at, w.cost(), m.had, w.pieces(m, m.seen.touched)) && w.twist != keepsAll {
		return
	}
	v := &values{of: map[int]uint64{}, neverIn: w.twist == noHold}
	for _, x := range w.pieces(m, m.seen.written) {
		v.is = append(v.is, contentPiece{x, &Content{}})
		for i := x.Base; i < x.Base+x.Size; i++ {
			v.of[int(i)] = m.memory[i]
		}
	}
	v.Hold()
	w.holdResult(m, v.is)
	w.results.Keep(r, m.record, len(w.ranks)-1, v)
	v.Drop()
}

// pieces are the pieces of memory in which words lie: of the memory that was compared, else allocations.
func (w *world) pieces(m *member, all map[int]bool) (out []Span) {
	for _, i := range slices.Sorted(maps.Keys(all)) {
		holds := func(x Span) bool { return (Span{uint64(i), 1}).isIn(x) }
		where := m.had
		if !slices.ContainsFunc(where, holds) {
			where = w.allocs
		}
		if x := where[slices.IndexFunc(where, holds)]; !slices.Contains(out, x) {
			out = append(out, x)
		}
	}
	return out
}

// finish has a rank carry out the same operation on a device of its own, and compares.
func (w *world) finish(r int) {
	m := &w.members[r]
	o := &w.ranks[r][m.next]
	o.do(o.param, newAccess(&m.alone))
	if o.prints {
		m.shouted++
	}
	m.next++
	m.phase, m.result = ready, nil
	if w.wrong == "" && (m.memory != m.alone || m.printed != m.shouted) {
		w.wrong = fmt.Sprintf("after operation %d rank %d has %x and has printed %d times, and would have %x and have printed %d times on a device of its own",
			m.next, r, m.memory, m.printed, m.alone, m.shouted)
	}
}

// key identifies worlds that have the same future.
func (w *world) key() string {
	var out strings.Builder
	for i := range w.members {
		m := &w.members[i]
		fmt.Fprint(&out, m.next, m.phase, m.plan, m.had, m.record, m.memory, m.seen.touched, m.seen.written, m.result != nil, ";")
		for _, x := range m.contents.pieces {
			sum, known := x.is.KnownSum()
			fmt.Fprint(&out, x.at, sum, known)
		}
		if m.result != nil {
			fmt.Fprint(&out, m.result.of)
		}
	}
	for _, at := range slices.SortedFunc(maps.Keys(w.results.sites), func(a, b Site) int { return slices.Compare(a[:], b[:]) }) {
		fmt.Fprint(&out, at[0], *w.results.sites[at])
	}
	for _, k := range w.results.order {
		fmt.Fprint(&out, k.record, k.maker, k.taken, k.takers, k.Result.(*values).users, ";")
	}
	return out.String()
}

// after is the world after steps of these ranks.
func after(m *model, t twist, steps []int) *world {
	w := newWorld(m, t)
	for _, r := range steps {
		if w.step(r); w.wrong != "" {
			break
		}
	}
	return w
}

// explore tries all orders of the steps. wrong is the first violation, with the steps that led there; "": none was found.
// worlds is the number of different worlds, and taken the largest number of results that were taken in a world.
func explore(m *model, t twist) (wrong string, worlds, taken int) {
	seen := map[string]bool{}
	var visit func(steps []int) string
	visit = func(steps []int) string {
		w := after(m, t, steps)
		if w.wrong != "" {
			return fmt.Sprintf("%s, after steps of the ranks %v", w.wrong, steps)
		}
		taken = max(taken, w.taken)
		if key := w.key(); seen[key] {
			return ""
		} else {
			seen[key] = true
		}
		for r := range w.members {
			if !w.canStep(r) {
				continue
			}
			if wrong := visit(append(slices.Clone(steps), r)); wrong != "" {
				return wrong
			}
		}
		return ""
	}
	return visit(nil), len(seen), taken
}

// wander tries a single random order of the steps.
func wander(m *model, t twist, r *rand.Rand) *world {
	w := newWorld(m, t)
	for w.wrong == "" {
		var left []int
		for i := range w.members {
			if w.canStep(i) {
				left = append(left, i)
			}
		}
		if len(left) == 0 {
			break
		}
		w.step(left[r.IntN(len(left))])
	}
	return w
}

// mix makes a word of other words.
func mix(all ...uint64) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, all)
	return h.Sum64()
}
