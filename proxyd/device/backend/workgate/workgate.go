// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package workgate holds a space's work back while the space is not mapped. All backends share the package.
package workgate

import (
	"sync"
	"sync/atomic"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// Gate lets a space's work run while the space is mapped.
type Gate struct {
	mu      sync.Mutex
	open    chan struct{} // closed while work may begin
	mapped  bool
	held    bool        // mapped, but no more work begins
	paused  atomic.Bool // held, but work that has begun goes on
	closed  bool
	running int
	quiet   func()
	endless chan struct{} // closed while streams take work beyond their limit
}

// New is a gate that is shut. quiet is called, by the goroutine that leaves, when the gate is held and no work runs any
// more; quiet must not call the gate.
func New(quiet func()) *Gate {
	return &Gate{open: make(chan struct{}), endless: make(chan struct{}), quiet: quiet}
}

// Unlimit lets streams take work beyond their limit, or no longer.
func (g *Gate) Unlimit(on bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.endless:
		if !on {
			g.endless = make(chan struct{})
		}
	default:
		if on {
			close(g.endless)
		}
	}
}

// Unlimited is closed while streams take work beyond their limit.
func (g *Gate) Unlimited() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.endless
}

// Enter waits until work may begin; false if work never will again.
func (g *Gate) Enter() bool { return g.enterCall(false) }

// Reenter waits until work that has begun may go on; false if work never will again.
func (g *Gate) Reenter() bool { return g.enterCall(true) }

func (g *Gate) enterCall(begun bool) bool {
	for {
		g.mu.Lock()
		if g.closed {
			g.mu.Unlock()
			return false
		}
		if g.mapped && (!g.held || begun && g.paused.Load()) {
			g.running++
			g.mu.Unlock()
			return true
		}
		open := g.open
		g.mu.Unlock()
		<-open
	}
}

// Leave ends the work that Enter let through.
func (g *Gate) Leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running--; g.running == 0 && g.held {
		g.quiet()
	}
}

// TryEnter is Enter if Enter need not wait.
func (g *Gate) TryEnter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || !g.mapped || g.held {
		return false
	}
	g.running++
	return true
}

// Outside lets the space be unmapped while work that has entered waits for other work. Outside returns when the space
// is mapped again, false if it never will be; the work leaves as usual.
func (g *Gate) Outside(wait func()) bool { return g.waitOutside(wait, true) }

// Rest is Outside for work that can be interrupted here: while the gate is paused the work does not go on.
func (g *Gate) Rest() bool { return g.waitOutside(func() {}, false) }

func (g *Gate) waitOutside(wait func(), begun bool) bool {
	return g.OutsideUntil(func() bool { wait(); return begun })
}

// OutsideUntil is Outside, or Rest if wait returns false: the work that has entered has not begun after all.
func (g *Gate) OutsideUntil(wait func() (begun bool)) bool {
	g.Leave()
	if g.enterCall(wait()) {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running++
	return false
}

// Set opens the gate: the space is mapped.
func (g *Gate) Set() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.mapped || g.held {
		g.mapped, g.held = true, false
		g.paused.Store(false)
		close(g.open)
	}
}

// Hold lets no more work begin, and lets no work that has begun come back from Outside.
func (g *Gate) Hold() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mapped && !g.held {
		g.held = true
		g.open = make(chan struct{})
	}
}

// Pause lets no more work begin. Work that has begun goes on until an interruption is possible: see Rest. Set undoes
// Pause.
func (g *Gate) Pause() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.mapped || g.paused.Load() {
		return
	}
	g.paused.Store(true)
	if g.held {
		close(g.open) // held work that has begun goes on
	}
	g.held = true
	g.open = make(chan struct{})
}

// IsPaused tells whether interruptible work is to call Rest.
func (g *Gate) IsPaused() bool { return g.paused.Load() }

// Clear shuts the gate unless work is running. busy tells of work that has been handed on; no work enters during the
// call of busy. busy may be nil.
func (g *Gate) Clear(busy func() bool) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running > 0 || busy != nil && busy() {
		return backend.NotReady
	}
	if g.mapped && !g.held {
		g.open = make(chan struct{})
	}
	g.mapped, g.held = false, false
	g.paused.Store(false)
	return nil
}

// Close lets all work through and tells it that the gate is closed.
func (g *Gate) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.closed = true
		if !g.mapped || g.held {
			close(g.open)
		}
	}
}
