// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package runs

import "sync"

// Withheld has the programs for which a signal of Slurm is withheld while the conductor decides whether they get the
// signal. Signal names such a program. All methods may be called concurrently.
type Withheld[Signal any] struct {
	mu       sync.Mutex
	deciding bool
	programs []Signal
}

// Add adds a program, and returns true if a decision must be started.
func (w *Withheld[Signal]) Add(signal Signal) (start bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.programs = append(w.programs, signal)
	start = !w.deciding
	w.deciding = true
	return start
}

// EndDecision ends a decision, and returns the programs that have waited for the decision.
func (w *Withheld[Signal]) EndDecision() []Signal {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.programs
	w.programs, w.deciding = nil, false
	return all
}
