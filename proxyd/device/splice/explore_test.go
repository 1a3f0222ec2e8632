// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package splice

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// The allocations of the model: parameters and activations, gradients, a pointer, and the words that it may point to.
var (
	segment   = Span{0, 3} // a parameter at 0, activations behind
	gradients = Span{3, 1}
	pointer   = Span{4, 1}
	target    = Span{5, 2}
	other     = Span{7, 1}

	allAllocs = []Span{segment, gradients, pointer, target, other}
)

// update changes the parameter, by the gradients and a learning rate.
func update(rate uint64) operation {
	return operation{site: 1, param: rate, points: []Span{segment, gradients}, do: func(rate uint64, a access) { a.set(0, mix(rate, a.get(0), a.get(3))) }}
}

// follow changes the parameter by a word that the pointer points to.
func follow() operation {
	return operation{site: 2, points: []Span{gradients, pointer}, do: func(_ uint64, a access) { a.set(3, mix(a.get(3), a.get(5+int(a.get(4)%3)))) }}
}

// wide is an update that accesses an activation, too, if the parameter is even.
func wide() operation {
	return operation{site: 3, points: []Span{segment}, do: func(_ uint64, a access) {
		v := a.get(0)
		if v%2 == 0 {
			a.set(1, mix(v, a.get(1)))
		}
		a.set(0, v/2)
	}}
}

// report prints, and counts its calls in the gradients.
func report() operation {
	return operation{site: 4, points: []Span{gradients}, prints: true, do: func(_ uint64, a access) { a.set(3, a.get(3)+1) }}
}

// put writes a word, as a copy from the program does.
func put(at int, v uint64) operation {
	return operation{param: v, do: func(v uint64, a access) { a.set(at, v) }}
}

// all makes a model in which n ranks have the same operations.
func all(name string, n int, ops ...operation) *model {
	m := &model{name: name, allocs: allAllocs, once: true}
	for range n {
		m.begin, m.ranks = append(m.begin, words{1, 2, 3, 4, 1, 5, 6, 7}), append(m.ranks, ops)
	}
	return m
}

// with changes a model.
func (m *model) with(change func(m *model)) *model { change(m); return m }

var models = []*model{
	all("updates", 2, update(3), update(3), update(3), update(3)),
	all("three ranks", 3, update(3), update(3)),
	all("two sites", 2, update(3), follow(), update(3), follow()),
	all("a learning rate of one's own", 2, update(3), update(3), update(3)).with(func(m *model) {
		m.ranks[1] = []operation{update(3), update(4), update(3)}
	}),
	all("gradients of one's own", 2, update(3), put(3, 9), update(3)).with(func(m *model) { m.begin[1][3], m.once = 5, false }),
	all("activations of one's own", 2, update(3), update(3), update(3), update(3)).with(func(m *model) { m.begin[1][1] = 8 }),
	all("activations of one's own, dear to compare", 2, update(3), update(3), update(3)).with(func(m *model) {
		m.begin[1][1], m.dear, m.once = 8, true, false
	}),
	all("a pointer", 2, follow(), follow(), follow(), follow()),
	all("what the pointer points to is one's own", 2, follow(), follow(), follow()).with(func(m *model) { m.begin[1][6], m.once = 8, false }),
	all("a pointer that changes", 2, follow(), follow(), put(4, 2), follow(), follow()),
	all("a pointer that changes to what is one's own", 2, follow(), follow(), put(4, 2), follow()).with(func(m *model) { m.begin[1][7] = 8 }),
	all("parts that change", 2, wide(), wide(), wide(), wide()).with(func(m *model) {
		m.begin[0], m.begin[1] = words{26, 2, 3}, words{26, 2, 4}
	}),
	all("prints", 2, report(), report(), report()).with(func(m *model) { m.once = false }),
	all("one rank lags", 3, update(3), update(4)).with(func(m *model) { m.ranks[2] = []operation{put(3, 1), put(3, 4), update(3)} }),
}

// TestEveryInterleaving: in each order of the ranks' steps, each rank has the memory that it would have on a device of its own.
func TestEveryInterleaving(t *testing.T) {
	if testing.Short() {
		t.Skip("explores all orders, for seconds")
	}
	for _, m := range models {
		wrong, worlds, taken := explore(m, right)
		if wrong != "" {
			t.Errorf("model %q breaks a rule: %s", m.name, wrong)
		}
		if (taken > 0) != m.once {
			t.Errorf("%s: at most %d results are taken", m.name, taken)
		}
		t.Logf("%s: %d worlds, %d results taken at most", m.name, worlds, taken)
	}
}

// randomModel makes ranks with long programs that are almost alike: long enough for all pauses, and to learn parts.
func randomModel(r *rand.Rand) *model {
	m := all("random", 2+r.IntN(2))
	m.dear = r.IntN(2) == 0
	for i := range m.begin {
		if r.IntN(2) == 0 {
			m.begin[i][r.IntN(len(m.begin[i]))] = uint64(r.IntN(9))
		}
	}
	for range 200 {
		o := []operation{update(3), update(3), update(3), follow(), follow(), wide(), wide(), put(r.IntN(8), uint64(r.IntN(9))), report()}[r.IntN(9)]
		for i := range m.ranks {
			mine := o
			switch r.IntN(60) {
			case 0:
				mine = put(r.IntN(8), uint64(r.IntN(9)))
			case 1:
				mine.param++
			}
			m.ranks[i] = append(m.ranks[i], mine)
		}
	}
	return m
}

// TestRandomModels: the same holds for long random programs, each in a random order.
func TestRandomModels(t *testing.T) {
	seeds := uint64(400)
	if testing.Short() {
		seeds = 100
	}
	total, byParts := 0, 0
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 5))
		w := wander(randomModel(r), right, r)
		if w.wrong != "" {
			t.Fatalf("seed %d breaks a rule: %s", seed, w.wrong)
		}
		total, byParts = total+w.taken, byParts+w.byParts
	}
	if total == byParts || byParts == 0 {
		t.Errorf("%d results are taken, %d of operations of which parts are compared: want some of both kinds", total, byParts)
	}
	t.Logf("%d results are taken, %d of operations of which parts are compared", total, byParts)
}

// TestMistakes: the check finds each of the deliberate mistakes, by random models, which take less time, or else by all
// orders.
func TestMistakes(t *testing.T) {
	for twist := right + 1; twist < lastTwist; twist++ {
		found := ""
		for seed := uint64(0); found == "" && seed < 200; seed++ {
			r := rand.New(rand.NewPCG(seed, 5))
			if w := wander(randomModel(r), twist, r); w.wrong != "" {
				found = fmt.Sprint("seed ", seed, ": ", w.wrong)
			}
		}
		for _, m := range models {
			if found != "" {
				break
			}
			if wrong, _, _ := explore(m, twist); wrong != "" {
				found = fmt.Sprint(m.name, ": ", wrong)
			}
		}
		if found == "" {
			t.Errorf("mistake %d: the check found no violation", twist)
		}
		t.Logf("mistake %d: %s", twist, found)
	}
}
