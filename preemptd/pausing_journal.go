// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/preemptd/action"
	"github.com/singularity-slurm/singularity-slurm/preemptd/journal"
)

// pauseVariable is set in the environment by tests only (tests/harm, by contrib/minicluster): the path of a file with the
// name of the step at which this process is to stop itself. Without the file, or with an empty one, the process goes on.
const pauseVariable = "SINGULARITY_SLURM_TEST_PAUSE_FILE"

// pausingJournal is a journal at which this process can be stopped, for tests in which a program is killed then. With
// "park" the process stops when the journal has just got that step, before the step is done; with "park!" when the step
// is done, and the journal does not say so yet.
type pausingJournal struct {
	action.Journal
	at   func() string // returns the step, which may change between calls
	stop func()
	log  *slog.Logger

	mu    sync.Mutex
	steps map[int64]string // that this process wrote last, by action
}

// newPausingJournal returns the journal j, which stops this process where the file at pauseFile says. Without a path it
// returns j itself.
func newPausingJournal(j action.Journal, pauseFile string, log *slog.Logger) action.Journal {
	if pauseFile == "" {
		return j
	}
	at := func() string {
		text, _ := os.ReadFile(pauseFile) // a file that is missing names no step
		return strings.TrimSpace(string(text))
	}
	return &pausingJournal{Journal: j, at: at, stop: stopHere, log: log, steps: map[int64]string{}}
}

// Save stops the process before or after the action is written, if the process is to stop at the action's step.
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
