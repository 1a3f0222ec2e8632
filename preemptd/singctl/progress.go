// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// progress shows a person the progress: on a terminal a bar in a line that changes, in a log a line
// for each phase, when the phase begins. A progress is used by a single goroutine.
type progress struct {
	w        io.Writer
	quiet    bool
	terminal bool
	now      func() time.Time
	began    time.Time
	phase    string
	wrote    bool // the terminal's line is not empty
}

func (a *app) newProgress() *progress {
	return &progress{w: a.stderr, quiet: a.quiet, terminal: a.terminal, now: a.now, began: a.now()}
}

// showProgress shows how far the work is.
func (p *progress) showProgress(m *rpc.Progress) {
	if p.quiet {
		return
	}
	took := p.now().Sub(p.began)
	if p.terminal {
		fmt.Fprintf(p.w, "\r\x1b[K%s", progressText(m, took))
		p.wrote = true
		return
	}
	if phase := phaseWords(m.GetPhase()); phase != p.phase {
		p.phase = phase
		fmt.Fprintln(p.w, progressText(&rpc.Progress{Phase: m.GetPhase()}, took))
	}
}

// endLine leaves the terminal's line, and may be called twice.
func (p *progress) endLine() {
	if p.wrote {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.wrote = false
	}
}

const (
	barWidth = 24
	working  = "working" // a phase without a name
)

// wordsOfProgress are words for people: for a phase of a checkpoint, of which the log has the name, and for the time
// before and after the phases.
var wordsOfProgress = map[string]string{
	rpc.PhasePrepare: "looking at the job",
	rpc.PhaseCut:     "stopping its GPUs",
	rpc.PhaseFreeze:  "stopping its tasks",
	rpc.PhaseDrain:   "stopping its tasks, waiting for the tasks' output",
	"empty":          "waiting until the nodes are empty",
	"staged":         "waiting until the checkpoints of the nodes are in the store",
	rpc.PhaseHalt:    "stopping its script",
	rpc.PhaseDump:    "capturing its memory",
	rpc.PhaseCommit:  "writing the checkpoint's list",
	"upload":         "copying the checkpoint into the store",
	rpc.Waiting:      "waiting for the checkpoint before, which is on its way to the store",
}

func phaseWords(phase string) string {
	return orDefault(orDefault(wordsOfProgress[phase], phase), working)
}

func progressText(m *rpc.Progress, took time.Duration) string {
	var b strings.Builder
	b.WriteString(phaseWords(m.GetPhase()))
	amount := func(n int64) string {
		if m.GetUnit() == "bytes" {
			return bytesText(n)
		}
		return fmt.Sprint(n)
	}
	done, total := m.GetDone(), m.GetTotal()
	switch {
	case total > 0:
		full := int(min(max(done, 0), total) * barWidth / total)
		fmt.Fprintf(&b, " [%s%s] %s of %s", strings.Repeat("#", full), strings.Repeat("-", barWidth-full), amount(done), amount(total))
	case done > 0:
		fmt.Fprintf(&b, " %s", amount(done))
	}
	if m.GetText() != "" {
		b.WriteString(": " + m.GetText())
	}
	if took >= time.Second {
		fmt.Fprintf(&b, " … %.0f s", took.Seconds())
	}
	return safeLine(b.String())
}
