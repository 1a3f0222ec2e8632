// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import "sync"

// turns says whose space of a device is mapped.
type turns struct {
	mu     sync.Mutex
	spaces []*space
}

// join has a space take part.
func (t *turns) join(s *space) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.spaces = append(t.spaces, s)
	_ = s.Map()
}

// leave ends that.
func (t *turns) leave(*space) {}

// yield gives way to others whose turn it is.
func (p *process) yield() {}
