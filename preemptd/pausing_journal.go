// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"log/slog"
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/preemptd/action"
	"github.com/singularity-slurm/singularity-slurm/preemptd/journal"
)

// pausingJournal is a journal at which this process can be stopped, for tests in which a program is killed then (key
// pause_at). With "park" the process stops when the journal has just got that step, before the step is done; with
// "park!" when the step is done, and the journal does not say so yet.
type pausingJournal struct {
	action.Journal
	at   func() string
	stop func()
	log  *slog.Logger

	mu    sync.Mutex
	steps map[int64]string // that this process wrote last, by action
}

// Save stops before or after the action is written, if pause_at says so.
func (p *pausingJournal) Save(ctx context.Context, a *journal.Action, text string) error {
	at := p.at()
	was, left := p.stepLeft(a)
	if left && was != "" && at == was+doneMark {
		p.pauseAt(a, at)
	}
	err := p.Journal.Save(ctx, a, text)
	if err == nil && left && !a.State.Ended() && at == a.Step {
		p.pauseAt(a, at)
	}
	return err
}

// doneMark follows the name of a step that is done, before the journal says so.
const doneMark = "!"

// stepLeft remembers the action's step, and returns the step before and whether the action has
// left it.
func (p *pausingJournal) stepLeft(a *journal.Action) (was string, left bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	was = p.steps[a.ID]
	p.steps[a.ID] = a.Step
	if a.State.Ended() {
		delete(p.steps, a.ID)
	}
	return was, was != a.Step || a.State.Ended()
}

func (p *pausingJournal) pauseAt(a *journal.Action, at string) {
	p.log.Warn("paused", "at", at, "action", a.ID, "job", a.Job)
	p.stop()
}

// stopHere stops the process as kill -STOP does, before the call returns: the signal is
// for the calling thread.
func stopHere() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_ = unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGSTOP) // the test that waits for the pause continues the process
}
