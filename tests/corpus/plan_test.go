// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package corpus

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// nodesPerLane is how many nodes a program has to itself: two to run on, and one to move to.
const nodesPerLane = 3

// kind is a way to lose a job's processes.
type kind string

const (
	requeue   kind = "requeue"             // scontrol requeue; wherever Slurm puts the job next
	move      kind = "move"                // requeuehold, its node excluded, release: another node
	preempt   kind = "preempt"             // a premium job wants the whole node
	timeLimit kind = "time limit"          // the job's time is up
	nodeFail  kind = "node fail"           // a checkpoint, then a power cut of one of its nodes
	proxyd    kind = "proxyd"              // kill -9 of the node's proxyd, which is started again; then a move
	slurmd    kind = "slurmd"              // slurmd restarted under the job; then a requeue
	fewer     kind = "fewer GPUs"          // a move to a single GPU on each node
	oneNode   kind = "fewer nodes"         // a move to a single node, with as many GPUs as one of them had
	oneGPU    kind = "one GPU"             // a move to a single GPU of a single node; allGPUs follows in the same run
	allGPUs   kind = "all GPUs"            // a move back to as many nodes and GPUs as at first
	grow      kind = "more GPUs"           // another job lends a GPU for as long as the job runs
	shrink    kind = "fewer GPUs by lease" // another job lends a GPU, and ends
	warn      kind = "signal"              // the signal that the job has asked for, on which the job requeues itself
)

var kinds = []kind{requeue, move, preempt, timeLimit, nodeFail, proxyd, slurmd}

// rolledBack tells whether the job repeats the work after its last checkpoint. The log is never cut, so it then has the lines
// of that work twice.
func (k kind) rolledBack() bool { return k == nodeFail }

// blow is a single kill of a round.
type blow struct {
	kind kind
	// at is the moment, as a fraction of the time of an undisturbed run. The first
	// blow of a round counts from the job's start, the second from its restart.
	at float64
	// pick chooses among the targets: elements of an array, nodes.
	pick uint64
}

func (b blow) String() string { return fmt.Sprintf("%s at %.0f %%", b.kind, b.at*100) }

// planBlows decides which blows hit a program. The plan depends on the arguments alone, so that a seed and a name bring
// a failure back, also without the other programs of that time.
func planBlows(seed uint64, p program, rounds int) [][]blow {
	h := fnv.New64a()
	h.Write([]byte(p.name))
	rng := rand.New(rand.NewPCG(seed, h.Sum64()))
	deck := slices.Clone(kinds)
	if p.gpus > 1 {
		deck = append(deck, fewer)
	}
	if p.gpus > 0 && p.nodes > 1 {
		deck = append(deck, oneNode)
	}
	rng.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
	// What a program is there for comes first, in each run of the corpus.
	if p.most > p.gpus {
		deck = slices.Insert(deck, 0, grow, shrink)
	}
	if p.gpus > 1 && p.nodes > 1 {
		deck = slices.Insert(deck, 0, oneGPU)
	}
	if p.signal != "" {
		deck = slices.Insert(deck, 0, warn)
	}
	all := make([][]blow, rounds)
	for r := range all {
		first := blow{kind: deck[r%len(deck)], at: 0.1 + 0.7*rng.Float64(), pick: rng.Uint64()}
		all[r] = []blow{first}
		if first.kind == oneGPU {
			all[r] = append(all[r], blow{kind: allGPUs, at: (1 - first.at) * (0.1 + 0.7*rng.Float64()), pick: rng.Uint64()})
		} else if rng.IntN(3) == 0 {
			again := []kind{requeue, move}[rng.IntN(2)]
			all[r] = append(all[r], blow{kind: again, at: (1 - first.at) * (0.1 + 0.7*rng.Float64()), pick: rng.Uint64()})
		}
	}
	return all
}

func describeBlows(blows []blow) string {
	var b strings.Builder
	for i, one := range blows {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(one.String())
	}
	return b.String()
}

func TestPlan(t *testing.T) {
	if !reflect.DeepEqual(planBlows(7, program{name: "flock"}, 3), planBlows(7, program{name: "flock"}, 3)) {
		t.Error("the same seed plans differently")
	}
	if reflect.DeepEqual(planBlows(7, program{name: "flock"}, 3), planBlows(8, program{name: "flock"}, 3)) || reflect.DeepEqual(planBlows(7, program{name: "flock"}, 3), planBlows(7, program{name: "fifo"}, 3)) {
		t.Error("another seed or name plans the same")
	}
	// More rounds add to a plan and do not change the first rounds.
	if !reflect.DeepEqual(planBlows(7, program{name: "flock"}, 3), planBlows(7, program{name: "flock"}, 5)[:3]) {
		t.Error("the number of rounds changes the first ones")
	}
	seen := map[kind]int{}
	for seed := range uint64(50) {
		rounds := planBlows(seed, program{name: "flock"}, len(kinds))
		first := map[kind]bool{}
		for _, blows := range rounds {
			first[blows[0].kind] = true
			sum := 0.0
			for _, b := range blows {
				seen[b.kind]++
				sum += b.at
			}
			if sum < 0.1 || sum > 0.96 {
				t.Errorf("seed %d: the blows %s are not all within the run", seed, describeBlows(blows))
			}
		}
		if len(first) != len(kinds) {
			t.Errorf("seed %d: %d rounds begin with %d kinds", seed, len(rounds), len(first))
		}
	}
	for _, k := range kinds {
		if k.rolledBack() != (k == nodeFail) {
			t.Errorf("%s: all others take a checkpoint at the kill itself", k)
		}
		if seen[k] < 50 {
			t.Errorf("%s is planned %d times in 50 decks", k, seen[k])
		}
	}
	for _, c := range []struct {
		program program
		more    []kind
	}{
		{program{name: "p", nodes: 1, gpus: 1, most: 1}, nil},
		{program{name: "p", nodes: 1, gpus: 2, most: 2}, []kind{fewer}},
		{program{name: "p", nodes: 2, gpus: 1, most: 1}, []kind{oneNode}},
		{program{name: "p", nodes: 2, gpus: 2, most: 2}, []kind{fewer, oneNode, oneGPU}},
		{program{name: "p", nodes: 1, gpus: 1, most: 2}, []kind{grow, shrink}},
		{program{name: "p", nodes: 2}, nil},
		{program{name: "p", nodes: 1, signal: "USR1"}, []kind{warn}},
	} {
		var got []kind
		for _, blows := range planBlows(1, c.program, len(kinds)+len(c.more)) {
			if !slices.Contains(kinds, blows[0].kind) {
				got = append(got, blows[0].kind)
			}
		}
		slices.Sort(got)
		slices.Sort(c.more)
		if !slices.Equal(got, c.more) {
			t.Errorf("program %+v has the additional kinds %v, want %v", c.program, got, c.more)
		}
	}
	four := planBlows(1, program{name: "p", nodes: 2, gpus: 2}, 1)[0]
	if len(four) != 2 || four[0].kind != oneGPU || four[1].kind != allGPUs || four[0].at+four[1].at > 0.96 {
		t.Errorf("the first run of a program with four GPUs has %s, want that it comes to one GPU and back", describeBlows(four))
	}
	if got := describeBlows([]blow{{kind: move, at: 0.25}, {kind: nodeFail, at: 0.5}}); got != "move at 25 %, node fail at 50 %" {
		t.Errorf("describeBlows of a move and a node's failure: %v", got)
	}
}
