// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package barrier

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

var (
	programs = flag.Int("programs", 0, "random programs to explore; 0: as many as a change can wait for")
	seed     = flag.Uint64("seed", 1, "of the first random program; the next have the next numbers")
)

// randomProgram makes up a program of so many blocks; the same for the same seed. The
// program may hang by itself: ask isValid.
func randomProgram(seed uint64, blocks int) program {
	rng := rand.New(rand.NewPCG(seed, 0))
	g := &generator{Rand: rng, words: make([][]string, 2+rng.IntN(7)/3)} // 2, 3 or seldom 4 ranks
	for _, name := range "ABC"[:2+rng.IntN(2)] {
		g.makeComm(string(name), &g.comms)
	}
	g.blocking = []float64{0, 0.3, 0.7}[rng.IntN(3)]
	g.streams = rng.IntN(2) + 1
	for range blocks {
		g.addBlock()
	}
	p := program{
		name: fmt.Sprintf("seed %d", seed), comms: strings.Join(g.comms, " "), creates: strings.Join(g.creates, " "),
		staged: rng.IntN(2) == 0, waits: g.waits,
	}
	for r, words := range g.words {
		for i := range max(len(words), 1) - 1 {
			if rng.Float64() < 0.25 {
				words[i], words[i+1] = words[i+1], words[i]
			}
		}
		switch k := rng.IntN(12); {
		case k == 0 && r == 0:
			words = append(words, "X")
		case k == 1:
			p.exits = append(p.exits, Rank(r))
		case k == 2 && len(words) > 1:
			i := 1 + rng.IntN(len(words)-1)
			words = slices.Insert(slices.Clone(words), i, "|") // two threads
		}
		p.ranks = append(p.ranks, strings.Join(words, " "))
	}
	return p
}

type generator struct {
	*rand.Rand
	comms, creates []string
	members        [][]int // of all comms
	words          [][]string
	blocking       float64
	streams        int
	waits          bool
}

// makeComm makes up a communicator.
func (g *generator) makeComm(name string, to *[]string) {
	ranks := g.Perm(len(g.words))[:2+g.IntN(len(g.words)-1)]
	slices.Sort(ranks)
	g.members = append(g.members, ranks)
	*to = append(*to, name+"="+strings.Trim(strings.ReplaceAll(fmt.Sprint(ranks), " ", ","), "[]"))
}

func (g *generator) addWord(r int, word string) { g.words[r] = append(g.words[r], word) }

// addBlock adds a single operation that ranks do together.
func (g *generator) addBlock() {
	n := len(g.words)
	pair := g.Perm(n)[:2]
	a, b := pair[0], pair[1]
	switch k := g.IntN(100); {
	case k < 50:
		c := g.IntN(len(g.members))
		for _, r := range g.members[c] {
			word := fmt.Sprintf("%c@%d", "ABCDEF"[c], c%g.streams)
			if g.Float64() < g.blocking {
				word += "!"
			}
			g.addWord(r, word)
		}
	case k < 62:
		g.addWord(a, fmt.Sprintf(">%d", b))
		g.addWord(b, fmt.Sprintf("<%d", a))
	case k < 70:
		g.addWord(a, fmt.Sprintf("(>%d <%d)", b, b))
		g.addWord(b, fmt.Sprintf("(>%d <%d)", a, a))
	case k < 75:
		for r := range n {
			g.addWord(r, fmt.Sprintf("(>%d <%d)", (r+1)%n, (r+n-1)%n))
		}
	case k < 80: // a graph with two collectives
		for r := range n {
			switch inA, inB := slices.Contains(g.members[0], r), slices.Contains(g.members[1], r); {
			case inA && inB:
				g.addWord(r, "(A B)")
			case inA:
				g.addWord(r, "A")
			case inB:
				g.addWord(r, "B")
			}
		}
	case k < 87:
		g.waits = true
		g.addWord(a, fmt.Sprintf("h>%d", b))
		g.addWord(b, fmt.Sprintf("h<%d", a))
	case k < 93 && len(g.creates) < 2:
		// From now on addBlock can choose this operation, as the creation is in front.
		g.waits = true
		for len(g.members) < 3 { // so that names and indices agree
			g.members = append(g.members, g.members[0])
			g.comms = append(g.comms, "C"+g.comms[0][1:])
		}
		name := string("ABCDEF"[len(g.members)])
		g.makeComm(name, &g.creates)
		for _, r := range g.members[len(g.members)-1] {
			g.addWord(r, "+"+name)
		}
	default:
		g.addWord(g.IntN(n), "W")
	}
}

// tallyPrograms explores random programs and returns how often each verdict fell, for each
// kind of run. Programs that hang by themselves are left out.
func tallyPrograms(t *testing.T, n, most, blocks int, kinds map[string]func(program) (rules, bool)) map[string]map[verdict]int {
	table := make(map[string]map[verdict]int)
	states := 0
	for s := *seed; n > 0; s++ {
		w := newWorldOrNil(randomProgram(s, blocks))
		if w == nil || w.countSteps() > 2*blocks || !w.isValid() {
			continue
		}
		n--
		for _, kind := range slices.Sorted(maps.Keys(kinds)) {
			r, applies := kinds[kind](w.program)
			if !applies {
				continue
			}
			got := exploreAll(w, r, most)
			states += got.states
			if table[kind] == nil {
				table[kind] = make(map[verdict]int)
			}
			table[kind][got.verdict]++
			if r.wrong == right && got.verdict != ok && got.verdict != tooBig {
				t.Errorf("seed %d: program %v under %+v: verdict %s after\n%s", s, w.program, r, got.verdict, traceText(got.trace))
			}
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(table)) {
		t.Logf("%-40s %v", kind, table[kind])
	}
	t.Logf("%d states", states)
	return table
}

// countSteps returns how many operations all ranks issue together, which is the size of a program.
func (w *world) countSteps() (n int) {
	for _, th := range w.threads {
		for _, s := range th.steps {
			if s.kind == issue {
				n++
			}
		}
	}
	return n
}

// newWorldOrNil makes a world, or returns nil for a program that does not fit into the arrays of
// the model.
func newWorldOrNil(p program) *world {
	w := newWorld(p)
	if len(w.keys) > maxKeys || len(w.threads) > maxThreads || len(w.comms) > maxComms {
		return nil
	}
	return w
}

func TestRandomPrograms(t *testing.T) {
	if testing.Short() {
		t.Skip("explores a hundred thousand states")
	}
	n, most, blocks := 20, 8_000, 3
	if *programs > 0 {
		n, most, blocks = *programs, 200_000, 5
	}
	table := tallyPrograms(t, n, most, blocks, map[string]func(program) (rules, bool){
		"ours":                   func(p program) (rules, bool) { return rules{noTicks: !p.waits}, true },
		"ours, a spurious nudge": func(program) (rules, bool) { return rules{spurious: 1}, true },
		"ours, deadline":         func(program) (rules, bool) { return rules{deadline: true}, *programs > 0 },
		"ours, a rank dies":      func(program) (rules, bool) { return rules{dies: true}, *programs > 0 },
		"ours, leader lost":      func(program) (rules, bool) { return rules{lost: true}, *programs > 0 },
	})
	if all := table["ours"]; all[ok] < n/2 {
		t.Errorf("%v: most programs were not explored to their end", all)
	}
}

// TestRandomProgramsCatchWrongRules counts how often random programs show that a wrong rule is
// wrong: for the record, and as a check that the generator makes programs for which the rule
// matters.
func TestRandomProgramsCatchWrongRules(t *testing.T) {
	if *programs == 0 {
		t.Skip("long; see -programs")
	}
	counted := func(rule wrong, ticks bool) func(program) (rules, bool) {
		return func(p program) (rules, bool) { return rules{wrong: rule, noTicks: !ticks}, ticks || !p.waits }
	}
	kinds := map[string]func(program) (rules, bool){
		"exactly to the maximum": counted(exactly, false),
		"compare when all stand": counted(standing, false),
		"rounds":                 counted(rounds, false),
		"completed counts":       counted(completed, true),
		"pairs not counted":      counted(noPairs, true),
		"only arrived ones":      counted(arrivedOnly, true),
		"nudges not withdrawn":   func(program) (rules, bool) { return rules{wrong: keepGrants, spurious: 1}, true },
	}
	table := tallyPrograms(t, *programs, 100_000, 5, kinds)
	for kind, verdicts := range table {
		wrong := 0
		for v, n := range verdicts {
			if v != ok && v != tooBig {
				wrong += n
			}
		}
		if wrong == 0 {
			t.Errorf("%s: not caught by any of %d programs", kind, *programs)
		}
	}
}
