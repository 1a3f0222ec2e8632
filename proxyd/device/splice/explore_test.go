// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package splice

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

const (
	parameters Block = iota + 1
	gradients
	scratch
	private
)

func alloc(b Block) Op { return Op{Kind: Alloc, Record: fmt.Sprint("alloc ", b), Writes: []Block{b}} }
func free(b Block) Op  { return Op{Kind: Free, Writes: []Block{b}} }
func read(b Block) Op  { return Op{Kind: Read, Reads: []Block{b}} }

// alike returns an operation that is the same for all ranks: it changes a block, depending on other blocks.
func alike(name string, to Block, from ...Block) Op {
	return Op{Record: name, Reads: from, Writes: []Block{to}}
}

// fill returns an operation like alike's, which writes all of a block.
func fill(name string, to Block, from ...Block) Op {
	o := alike(name, to, from...)
	o.Fills = o.Writes
	return o
}

// ownWork returns an operation that computes different bytes for each rank.
func ownWork(to Block, from ...Block) Op { return Op{Reads: from, Writes: []Block{to}} }

func reduce(to Block, from Block) Op {
	return Op{Kind: Collective, Record: "all", Reads: []Block{from}, Writes: []Block{to}, Fills: []Block{to}}
}

// ranks makes a program from the operations of each rank.
func ranks(name string, all ...[]Op) *program {
	p := &program{name: name}
	for r, ops := range all {
		var steps []step
		for i, o := range ops {
			o.ID = uint64(100*(r+1) + i)
			steps = append(steps, step{Op: o})
		}
		p.ranks = append(p.ranks, steps)
	}
	return p
}

// each makes a program of n ranks with the same operations.
func each(name string, n int, ops ...Op) *program {
	all := make([][]Op, n)
	for i := range all {
		all[i] = ops
	}
	return ranks(name, all...)
}

// with changes a program.
func (p *program) with(change func(p *program)) *program { change(p); return p }

// training returns a rank's operations in a mini-batch.
func training() []Op {
	return []Op{
		alloc(parameters), alloc(gradients), ownWork(gradients, parameters), reduce(gradients, gradients), alike("adam", parameters, gradients), read(parameters),
	}
}

var programs = []*program{
	each("training", 2, training()...),
	each("three ranks", 3, alloc(parameters), ownWork(parameters), reduce(parameters, parameters), alike("adam", parameters)),
	ranks("a learning rate of one's own", training(), append(training()[:4:4], alike("another adam", parameters, gradients), read(parameters))),
	ranks("one rank corrects", append(training(), ownWork(parameters), read(parameters)), append(training(), alike("more", parameters), read(parameters))),
	ranks("one rank reads more", []Op{alloc(parameters), alike("a", parameters), read(parameters), alike("b", parameters)},
		[]Op{alloc(parameters), alike("a", parameters), alike("b", parameters), read(parameters)}),
	each("freed and there again", 2, alloc(scratch), ownWork(scratch), free(scratch), alloc(scratch), alike("a", scratch), read(scratch)),
	each("written in part", 2, alloc(scratch), ownWork(scratch), alike("part", scratch), read(scratch)),
	each("written whole", 2, alloc(scratch), ownWork(scratch), fill("whole", scratch), alike("a", scratch), read(scratch)),
	each("reads what is private", 2, alloc(private), alloc(parameters), ownWork(private), alike("a", parameters, private), read(parameters)),
	ranks("another order", []Op{alloc(parameters), alike("a", parameters), alike("b", parameters)}, []Op{alloc(parameters), alike("b", parameters), alike("a", parameters)}),
	ranks("a rank waits for the other's file", []Op{alloc(parameters), alike("a", parameters), read(parameters)}, []Op{alloc(parameters), alike("a", parameters)}).with(func(p *program) {
		p.ranks[1][1].peer, p.ranks[1][1].after = 0, 3
	}),
	each("a rank is killed", 3, alloc(parameters), alike("a", parameters), read(parameters)).with(func(p *program) { p.mayEnd = true }),
	each("killed before a collective", 2, alloc(parameters), reduce(parameters, parameters), read(parameters)).with(func(p *program) { p.mayEnd = true }),
	ranks("compared", []Op{alloc(parameters), fill("a", parameters), ownWork(parameters), read(parameters)},
		[]Op{alloc(parameters), fill("a", parameters), alike("c", parameters), read(parameters)}).with(func(p *program) { p.compares = parameters }),
}

// TestEveryInterleaving: in each order of posts, time-outs and ends of ranks, each rank finds the memory that
// it would find on a device of its own.
func TestEveryInterleaving(t *testing.T) {
	for _, p := range programs {
		wrong, worlds := explore(p, right)
		if wrong != "" {
			t.Errorf("%s: %s", p.name, wrong)
		}
		t.Logf("%s: %d worlds", p.name, worlds)
	}
}

// TestRandomPrograms: the same holds for random programs.
func TestRandomPrograms(t *testing.T) {
	seeds := uint64(60)
	if testing.Short() {
		seeds = 20
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 5))
		one := randomOps(r, nil)
		p := ranks(fmt.Sprint("seed ", seed), one, randomOps(r, one))
		if p.mayEnd = r.IntN(4) == 0; r.IntN(3) == 0 {
			p.compares = parameters
		}
		if wrong, _ := explore(p, right); wrong != "" {
			t.Fatalf("%s: %s", p.name, wrong)
		}
	}
}

// randomOps returns random operations on blocks that exist. If like has the operations of another rank, most
// of these are taken over and some are changed.
func randomOps(r *rand.Rand, like []Op) []Op {
	ops := []Op{alloc(parameters), alloc(gradients)}
	pick := func() Block { return []Block{parameters, gradients}[r.IntN(2)] }
	for i := len(ops); i < 7; i++ {
		var o Op
		switch k := r.IntN(12); {
		case like != nil && k < 8:
			o = like[i]
		case like == nil && k < 2:
			o = reduce(pick(), pick())
		case k < 6:
			o = alike(fmt.Sprint("work ", r.IntN(2)), pick(), pick())
		case k < 8:
			o = fill("fill", pick())
		case k < 10:
			o = ownWork(pick(), pick())
		default:
			o = read(pick())
		}
		if like != nil && like[i].Kind == Collective {
			o = like[i] // all ranks take part
		}
		ops = append(ops, o)
	}
	return ops
}

// TestOnce: a group computes once what its ranks ask for alike.
func TestOnce(t *testing.T) {
	g, once, own := New(4), 0, 0
	p := each("training", 4, training()...)
	for i := range p.ranks[0] {
		for r := range p.ranks {
			for _, e := range g.Step(Post{r, p.ranks[r][i].Op}) {
				switch e.Act {
				case RunOnce:
					once++
				case RunOwn:
					own++
				case Unshare:
					if e.Block != gradients {
						t.Errorf("rank %d has block %d for itself", e.Rank, e.Block)
					}
				}
			}
		}
	}
	if once != 4 || own != 8 {
		t.Errorf("%d operations ran once, %d for one rank", once, own)
	}
	if !g.isCommon(parameters) || !g.isCommon(gradients) {
		t.Error("the results of operations that ran once are not common memory, want common memory")
	}
}

// TestMistakes: the check of the model finds each of the deliberate mistakes.
func TestMistakes(t *testing.T) {
	for twist := right + 1; twist < lastTwist; twist++ {
		found := false
		for _, p := range programs {
			if wrong, _ := explore(p, twist); wrong != "" {
				found = true
				break
			}
		}
		if !found {
			t.Errorf("mistake %d: the model check found no violation", twist)
		}
	}
}
