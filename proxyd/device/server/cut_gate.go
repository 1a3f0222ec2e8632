// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"time"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/wire"
	"github.com/singularity-slurm/singularity-slurm/proxyd/barrier"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/cut"
)

// gatedProcess is a process in an attempt: the barrier's gate over the ring's gate. The ring's permissions are handed out
// singly, and the next only when the use of the permission before was reported.
type gatedProcess struct {
	p        *process
	gate     barrier.Gate
	shut     bool
	out      bool                   // a permission is out
	nudge    bool                   // the permission is by a nudge
	reported map[barrier.Key]uint64 // as the leader has heard
	over     bool                   // the process has ended
	news     chan struct{}          // has an item when an operation was counted
	handed   chan struct{}          // likewise when a permission went out
}

// lookAfter is how long a permission is out before the ring is asked about its use. The goroutine that takes
// messages from the ring reports the use at once, but not while it waits for room in a stream.
const lookAfter = 50 * time.Millisecond

// shutGates shuts the counted gates of all processes. The caller holds cuts.mu, as of all below.
func (a *cutAttempt) shutGates() {
	for _, g := range a.gates {
		if g.over || g.shut {
			continue
		}
		g.shut, g.handed = true, make(chan struct{}, 1)
		g.p.ForgetLimits() // of the attempt before
		if len(g.p.Members.Values()) > 0 {
			g.p.Limit.BeginCut() // other ranks may wait for its collectives
		}
		g.p.Ring.OnCounted(func() { wakeReader(g.news) })
		if g.p.Ring.Shut(wire.Counted) != nil {
			continue // its end will be reported
		}
		g.gate.Shut()
		g.reported = map[barrier.Key]uint64{}
		if _, counts, err := g.readTally(); err == nil {
			a.addEvent(cut.Event{Kind: cut.Shut, Process: g.p.ID, Counts: counts})
			a.work.Go(func() { a.watchCounts(g) })
		}
	}
}

// findGate finds the gates of a process, or returns nil. The caller does not hold cuts.mu.
func (a *cutAttempt) findGate(process uint64) *gatedProcess {
	a.s.cuts.mu.Lock()
	defer a.s.cuts.mu.Unlock()
	return a.gates[process]
}

// openGate undoes shutGates for a process.
func (g *gatedProcess) openGate() {
	if g.shut {
		g.p.Limit.EndCut()
		g.p.Ring.OnCounted(nil)
		_ = g.p.Ring.Open(wire.Counted) // fails for a process that is gone, which does not matter
	}
}

// wakeReader puts a value into a channel with room for one value.
func wakeReader(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// watchCounts reports the counts of a process's operations.
func (a *cutAttempt) watchCounts(g *gatedProcess) {
	for {
		var again <-chan time.Time
		a.s.cuts.mu.Lock()
		if g.over {
			a.s.cuts.mu.Unlock()
			return
		}
		a.reportNewCounts(g)
		if g.out {
			again = time.After(lookAfter)
		}
		a.s.cuts.mu.Unlock()
		select {
		case <-g.news:
		case <-g.handed:
		case <-again:
		case <-a.ctx.Done():
			return
		}
	}
}

// readTally reads the counts: all counts by key, and the counts that the leader has not heard.
func (g *gatedProcess) readTally() (t wire.Tally, changed []barrier.Count, err error) {
	if t, err = g.p.Ring.Tally(); err != nil {
		return t, nil, err
	}
	for key, n := range g.p.Counts(t.Counts) {
		if g.reported[key] != n {
			g.reported[key] = n
			changed = append(changed, barrier.Count{Key: key, N: n})
		}
	}
	return t, changed, nil
}

// reportNewCounts reports the operations issued since the last look, and hands out a permission where the gate gives
// one.
func (a *cutAttempt) reportNewCounts(g *gatedProcess) {
	if a.ctx.Err() != nil || !g.shut {
		return
	}
	t, changed, err := g.readTally()
	if err != nil {
		return
	}
	a.reportIssued(g, changed, g.out && t.Unused == 0)
	if g.out {
		return
	}
	if ok, nudged := g.gate.Pass(func(k barrier.Key) uint64 { return g.reported[k] }); ok && g.p.Ring.Grant(1) == nil {
		g.out, g.nudge = true, nudged
		wakeReader(g.handed)
	}
}

// reportIssued tells that a permission was used, or that counts have changed.
func (a *cutAttempt) reportIssued(g *gatedProcess, changed []barrier.Count, used bool) {
	if !used && len(changed) == 0 {
		return
	}
	a.addEvent(cut.Event{Kind: cut.Issued, Process: g.p.ID, Counts: changed, Nudge: used && g.nudge})
	if used {
		g.out, g.nudge = false, false
	}
}

// withdrawPermissions takes back every permission.
func (a *cutAttempt) withdrawPermissions(g *gatedProcess) {
	unused, err := g.p.Ring.Withdraw()
	if err != nil {
		return
	}
	_, changed, err := g.readTally()
	if err != nil {
		return
	}
	if g.out && unused == 0 {
		a.reportIssued(g, changed, true)
		changed = nil
	}
	g.out, g.nudge = false, false
	g.gate.Withdraw()
	a.addEvent(cut.Event{Kind: cut.Withdrawn, Process: g.p.ID, Counts: changed})
}

// readCounts reports all counts once more.
func (a *cutAttempt) readCounts() {
	for _, g := range a.gates {
		if g.over || !g.shut {
			continue
		}
		g.reported = map[barrier.Key]uint64{}
		if _, counts, err := g.readTally(); err == nil {
			a.addEvent(cut.Event{Kind: cut.Reading, Process: g.p.ID, Counts: counts})
		}
	}
}
