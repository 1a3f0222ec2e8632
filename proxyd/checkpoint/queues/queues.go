// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package queues captures and restores the POSIX message queues of a capsule. The capsule's init takes the messages out and
// puts them back, so no message is lost with proxyd.
package queues

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/upload"
	"github.com/singularity-slurm/singularity-slurm/proxyd/messagequeue"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// streamName returns the name of the stream of a program's POSIX message queues, below the capsule's prefix.
func streamName(program string) string { return "queues/" + program }

// Save captures the POSIX message queues that each of the frozen programs sees. Programs that share an IPC namespace
// have the same queues.
func Save(ctx context.Context, c *capsule.Capsule, w upload.ShareWriter, prefix string, programs []capsule.Program) ([]*messagequeue.State, error) {
	all := make([]*messagequeue.State, len(programs))
	for i, p := range programs {
		var err error
		if all[i], err = saveProgramQueues(ctx, c, w, prefix, p); err != nil {
			return nil, fmt.Errorf("program %s: %w", p.Name, err)
		}
	}
	return all, nil
}

// saveProgramQueues captures the queues of a program, and writes them if there are any.
func saveProgramQueues(ctx context.Context, c *capsule.Capsule, w upload.ShareWriter, prefix string, p capsule.Program) (*messagequeue.State, error) {
	s, err := c.MessageQueues(ctx, p.PID)
	if err != nil || s.Len() == 0 {
		return s, err
	}
	stream, err := w.Create(prefix + streamName(p.Name))
	if err != nil {
		return nil, err
	}
	return s, errors.Join(json.NewEncoder(stream).Encode(s), stream.Close())
}

// Load returns the POSIX message queues that a program saw at the checkpoint, nil if there were none.
func Load(r *store.Reader, m *records.CapsuleMeta, p *records.ProgramMeta) (*messagequeue.State, error) {
	if len(p.Image.Queues) == 0 {
		return nil, nil
	}
	stream, err := r.Stream(m.StreamID(streamName(p.Name)))
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	var s messagequeue.State
	if err := json.NewDecoder(stream).Decode(&s); err != nil {
		return nil, fmt.Errorf("message queues of program %s: %w", p.Name, err)
	}
	return &s, nil
}

// Restore makes the POSIX message queues in a capsule that runs no program yet. A program with an IPC namespace of
// its own gets its queues there, by package criu.
func Restore(ctx context.Context, c *capsule.Capsule, r *store.Reader, m *records.CapsuleMeta) error {
	for i := range m.Programs {
		p := &m.Programs[i]
		if p.Image.HasSysV() {
			continue
		}
		s, err := Load(r, m, p)
		if err != nil || s == nil {
			return err
		}
		return messagequeue.Restore(ctx, fmt.Sprintf("/proc/%d/ns/ipc", c.PID()), s) // the other programs have the same
	}
	return nil
}
