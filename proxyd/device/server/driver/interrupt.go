// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package driver

import "sync"

// Interrupt ends the waits of calls that a thread of the shim makes for nothing but to hear what to do next: they have no answer
// as long as there is nothing, and a cut needs all answers.
type Interrupt struct {
	mu sync.Mutex
	ch chan struct{}
	on bool
}

// wait is closed from the moment when such calls are to return with nothing.
func (i *Interrupt) wait() <-chan struct{} {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ch == nil {
		i.ch = make(chan struct{})
	}
	return i.ch
}

// Begin ends all such waits, and those to come, until End.
func (i *Interrupt) Begin() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ch == nil {
		i.ch = make(chan struct{})
	}
	if !i.on {
		i.on = true
		close(i.ch)
	}
}

// End lets calls wait again.
func (i *Interrupt) End() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.on {
		i.on, i.ch = false, nil
	}
}
