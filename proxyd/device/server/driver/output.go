// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"context"
	"sync"
)

// maxOutput is the limit of the kernels' output kept for a program that does not read; CUDA's buffer has the same size.
const maxOutput = 1 << 20

// output brings the text that kernels print to their program. Unread output does not stop the kernels: text for which
// there is no room is lost, as with CUDA.
type output struct {
	to Peer

	mu     sync.Mutex
	lines  []line
	queued int
	busy   bool
	idle   chan struct{} // closed when all output is written; nil when no goroutine waits
}

type line struct {
	fd   int
	text []byte
}

// PrintText takes text; PrintText does not wait.
func (o *output) PrintText(fd int, text []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.queued+len(text) > maxOutput {
		return
	}
	o.queued += len(text)
	o.lines = append(o.lines, line{fd, append([]byte(nil), text...)})
	if !o.busy {
		o.busy = true
		go o.writeOut()
	}
}

// writeOut writes the pending output.
func (o *output) writeOut() {
	for {
		o.mu.Lock()
		if len(o.lines) == 0 {
			o.busy = false
			if o.idle != nil {
				close(o.idle)
				o.idle = nil
			}
			o.mu.Unlock()
			return
		}
		l := o.lines[0]
		o.lines = o.lines[1:]
		o.queued -= len(l.text)
		o.mu.Unlock()
		o.to.Print(l.fd, l.text)
	}
}

// IsIdle tells whether all printed output is written.
func (o *output) IsIdle() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.busy
}

// Flush waits until all output printed so far is written.
func (o *output) Flush(ctx context.Context) {
	o.mu.Lock()
	if !o.busy {
		o.mu.Unlock()
		return
	}
	if o.idle == nil {
		o.idle = make(chan struct{})
	}
	idle := o.idle
	o.mu.Unlock()
	select {
	case <-idle:
	case <-ctx.Done():
	}
}
