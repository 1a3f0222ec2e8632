// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package barrier

// Gate is a rank's side of the barrier: it decides whether the process may issue its next counted
// operation. A Gate serves all threads, devices and rings of the process. A Gate is not safe for
// concurrent use: its owner asks, counts and publishes under a single lock. An owner may instead give
// a permission in advance, by a word in the ring's header that says "one more". Then it gives at most
// one such word at a time, reports when the word was used, and takes an unused word back, under the
// shim's lock, before it answers Withdraw. The zero value is an open gate.
type Gate struct {
	shut    bool
	nudge   bool
	targets []Count
}

// Shut shuts the gate. Shut waits for no thread, wherever the threads are.
func (g *Gate) Shut() { *g = Gate{shut: true} }

// Raise replaces the targets.
func (g *Gate) Raise(targets []Count) { g.targets = targets }

// Nudge permits an operation that no target asks for.
func (g *Gate) Nudge() { g.nudge = true }

// Withdraw takes back every permission. The gate stays shut.
func (g *Gate) Withdraw() { g.Shut() }

// Open opens the gate when the attempt is over: it failed, the checkpoint is made, or the leader
// is lost and the member opens the gate by itself.
func (g *Gate) Open() { *g = Gate{} }

// Behind says whether the rank has issued less than its partners somewhere. issued returns the
// rank's own counts.
func (g *Gate) Behind(issued func(Key) uint64) bool {
	for _, t := range g.targets {
		if issued(t.Key) < t.N {
			return true
		}
	}
	return false
}

// Pass asks for an operation, of any kind; issued are the counts before it. If ok, the operation
// must be issued and counted at once. A nudge is spent only where no target lets the operation
// through, and then nudged is true.
func (g *Gate) Pass(issued func(Key) uint64) (ok, nudged bool) {
	if !g.shut || g.Behind(issued) {
		return true, false
	}
	nudged = g.nudge
	g.nudge = false
	return nudged, nudged
}
