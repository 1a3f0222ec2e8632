// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package barrier

import (
	"flag"
	"testing"
)

var long = flag.Bool("long", false, "explore all that is too much for a change to wait for")

// largestProgram limits the programs of the short run: larger ones are explored in the long run
// only. The limit is in states, not in seconds: the coverage of a test must not depend on the
// machine.
func largestProgram() int {
	if *long {
		return 4_000_000
	}
	return 100_000
}

// checkProgram checks that exploring a program under the rules finds no error, and returns how
// many states the program has.
func checkProgram(t *testing.T, w *world, r rules) int {
	t.Helper()
	got := exploreAll(w, r, largestProgram())
	if got.verdict != ok {
		t.Errorf("program %v under %+v: verdict %s after\n%s", w.program, r, got.verdict, traceText(got.trace))
	}
	return got.states
}

// traceText returns a trace as text.
func traceText(trace []label) string {
	var text []byte
	for _, l := range trace {
		text = append(text, "    "+l.String()+"\n"...)
	}
	return string(text)
}

// TestEveryInterleaving: in every order of events, every path ends, and ends at a safe cut. Where
// no host code waits for a rank at its gate, this needs no nudge; and a needless
// nudge does no harm.
func TestEveryInterleaving(t *testing.T) {
	for _, p := range cases {
		t.Run(p.name, func(t *testing.T) {
			if p.large && !*long {
				t.Skip("large; see -long")
			}
			w := newWorld(p)
			if !p.aborts && !w.isValid() {
				t.Fatal("the program hangs by itself")
			}
			states := checkProgram(t, w, rules{noTicks: !p.waits})
			if !*long && states > 3_000 {
				return
			}
			states += checkProgram(t, w, rules{spurious: 1})
			t.Logf("%d states", states)
		})
	}
}

// TestEveryDisturbance: the same holds when the deadline passes, a rank dies or the leader is
// lost at any moment: there is a cut, or a failure that says why, and then the job runs on.
// Messages that an attempt has left on the way do not harm the next attempt.
func TestEveryDisturbance(t *testing.T) {
	few := map[string]bool{overlap: true, peerSync: true, rankZero: true, eagerSend: true, shifted: true}
	disturbances := map[string]rules{
		"deadline":    {deadline: true},
		"dead rank":   {dies: true},
		"lost leader": {lost: true},
		"try again":   {deadline: true, again: true},
	}
	for what, r := range disturbances {
		for _, p := range cases {
			if p.large {
				continue
			}
			if r.again && (p.aborts || p.name == destroyed) {
				continue // the model does not tell the next Barrier which communicators were destroyed
			}
			if *long || few[p.name] && (!r.again || p.name != overlap) {
				t.Run(what+"/"+p.name, func(t *testing.T) {
					t.Logf("%d states", checkProgram(t, newWorld(p), r))
				})
			}
		}
	}
}
