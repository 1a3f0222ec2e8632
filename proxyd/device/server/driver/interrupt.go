// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"context"
	"sync"
)

// Interrupt ends the waits of calls by which a thread of the shim only asks for its next task: these calls have no
// answer as long as there is no task, and a cut needs all answers.
type Interrupt struct {
	mu     sync.Mutex
	on     bool
	ctx    context.Context // nil: no call has waited since End
	cancel context.CancelFunc
}

// interruptible returns a context that is done when such calls are to return without a task, and when its parent is
// done. The parent is the same in all calls.
func (i *Interrupt) interruptible(parent context.Context) context.Context {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ctx == nil {
		i.ctx, i.cancel = context.WithCancel(parent)
		if i.on {
			i.cancel()
		}
	}
	return i.ctx
}

// Begin ends all such waits, and all later waits, until End.
func (i *Interrupt) Begin() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.on = true
	if i.ctx != nil {
		i.cancel()
	}
}

// End lets calls wait again.
func (i *Interrupt) End() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.on {
		i.on, i.ctx = false, nil
	}
}
