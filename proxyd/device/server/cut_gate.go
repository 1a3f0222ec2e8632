// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"time"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/wire"
	"github.com/singularity-slurm/singularity-slurm/proxyd/barrier"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/cut"
)

// gated is a process in an attempt: the barrier's gate over the ring's. The ring's permissions are handed out singly,
// and the next only when the use of the permission before was told.
type gated struct {
	p      *process
	gate   barrier.Gate
	shut   bool
	out    bool                   // a permission is out
	nudge  bool                   // the permission is by a nudge
	told   map[barrier.Key]uint64 // as the leader has heard
	over   bool                   // the process has ended
	news   chan struct{}          // has something when something was counted
	handed chan struct{}          // likewise when a permission went out
}

// lookAfter is how long a permission is out before the ring is asked about its use. The goroutine that takes messages
// from the ring tells that at once; but a ring whose server waits for room in a stream takes none.
const lookAfter = 50 * time.Millisecond

// shut shuts the counted gates of all processes. The caller holds cuts.mu, as of all below.
func (a *attempt) shut() {
	for _, g := range a.gates {
		if g.over || g.shut {
			continue
		}
		g.shut, g.handed = true, make(chan struct{}, 1)
		g.p.ForgetLimits() // of the attempt before
		g.p.Ring.OnCounted(func() { wake(g.news) })
		if g.p.Ring.Shut(wire.Counted) != nil {
			continue // its end will be told
		}
		g.gate.Shut()
		g.told = map[barrier.Key]uint64{}
		if _, counts, err := g.tally(); err == nil {
			a.tell(cut.Event{Kind: cut.Shut, Process: g.p.ID, Counts: counts})
			a.work.Go(func() { a.watch(g) })
		}
	}
}

// open undoes the whole gating.
func (g *gated) open() {
	if g.shut {
		g.p.Ring.OnCounted(nil)
		_ = g.p.Ring.Open(wire.Counted) // of a process that is gone, which does not matter
	}
}

// wake puts something into a channel with room for one value.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// watch tells what a process issues.
func (a *attempt) watch(g *gated) {
	for {
		var again <-chan time.Time
		a.s.cuts.mu.Lock()
		if g.over {
			a.s.cuts.mu.Unlock()
			return
		}
		a.look(g)
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

// tally reads the counts: all by key, and the counts that the leader has not heard.
func (g *gated) tally() (t wire.Tally, changed []barrier.Count, err error) {
	if t, err = g.p.Ring.Tally(); err != nil {
		return t, nil, err
	}
	for key, n := range g.p.Counts(t.Counts) {
		if g.told[key] != n {
			g.told[key] = n
			changed = append(changed, barrier.Count{Key: key, N: n})
		}
	}
	return t, changed, nil
}

// look tells what was issued since, and hands out a permission where the gate gives one.
func (a *attempt) look(g *gated) {
	if a.ctx.Err() != nil || !g.shut {
		return
	}
	t, changed, err := g.tally()
	if err != nil {
		return
	}
	a.issued(g, changed, g.out && t.Unused == 0)
	if g.out {
		return
	}
	if ok, nudged := g.gate.Pass(func(k barrier.Key) uint64 { return g.told[k] }); ok && g.p.Ring.Grant(1) == nil {
		g.out, g.nudge = true, nudged
		wake(g.handed)
	}
}

// issued tells that a permission was used, or that counts have changed.
func (a *attempt) issued(g *gated, changed []barrier.Count, used bool) {
	if !used && len(changed) == 0 {
		return
	}
	a.tell(cut.Event{Kind: cut.Issued, Process: g.p.ID, Counts: changed, Nudge: used && g.nudge})
	if used {
		g.out, g.nudge = false, false
	}
}

// withdraw takes back every permission.
func (a *attempt) withdraw(g *gated) {
	unused, err := g.p.Ring.Withdraw()
	if err != nil {
		return
	}
	_, changed, err := g.tally()
	if err != nil {
		return
	}
	if g.out && unused == 0 {
		a.issued(g, changed, true)
		changed = nil
	}
	g.out, g.nudge = false, false
	g.gate.Withdraw()
	a.tell(cut.Event{Kind: cut.Withdrawn, Process: g.p.ID, Counts: changed})
}

// read tells all counts once more.
func (a *attempt) read() {
	for _, g := range a.gates {
		if g.over || !g.shut {
			continue
		}
		g.told = map[barrier.Key]uint64{}
		if _, counts, err := g.tally(); err == nil {
			a.tell(cut.Event{Kind: cut.Reading, Process: g.p.ID, Counts: counts})
		}
	}
}
