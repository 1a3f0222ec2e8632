// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/runs"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/upload"
	"github.com/singularity-slurm/singularity-slurm/proxyd/messagequeue"
)

// queuesStream is the stream of a program's POSIX message queues, below the capsule's prefix.
func queuesStream(program string) string { return "queues/" + program }

// saveQueues captures the POSIX message queues that each of the frozen programs sees. Programs that share an IPC namespace
// have the same queues.
func (lc *localCapsule) saveQueues(ctx context.Context, w upload.ShareWriter, prefix string, programs []capsule.Program) ([]*messagequeue.State, error) {
	all := make([]*messagequeue.State, len(programs))
	for i, p := range programs {
		var err error
		if all[i], err = lc.saveQueuesOf(ctx, w, prefix, p); err != nil {
			return nil, fmt.Errorf("program %s: %w", p.Name, err)
		}
	}
	return all, nil
}

// saveQueuesOf captures the queues of a program, and writes them if there are any.
func (lc *localCapsule) saveQueuesOf(ctx context.Context, w upload.ShareWriter, prefix string, p capsule.Program) (*messagequeue.State, error) {
	s, err := lc.capsule.MessageQueues(ctx, p.PID)
	if err != nil || s.Len() == 0 {
		return s, err
	}
	stream, err := w.Create(prefix + queuesStream(p.Name))
	if err != nil {
		return nil, err
	}
	return s, errors.Join(json.NewEncoder(stream).Encode(s), stream.Close())
}

// loadQueues returns the POSIX message queues that a program saw at the checkpoint, nil if there were none.
func loadQueues(point *runs.ResumePoint, m *records.CapsuleMeta, p *records.ProgramMeta) (*messagequeue.State, error) {
	if len(p.Image.Queues) == 0 {
		return nil, nil
	}
	r, err := point.Reader.Stream(m.StreamID(queuesStream(p.Name)))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var s messagequeue.State
	if err := json.NewDecoder(r).Decode(&s); err != nil {
		return nil, fmt.Errorf("message queues of program %s: %w", p.Name, err)
	}
	return &s, nil
}

// restoreQueues makes the POSIX message queues in a capsule that runs no program yet. A program with an IPC namespace of
// its own gets its queues there, by package criu.
func (lc *localCapsule) restoreQueues(point *runs.ResumePoint, m *records.CapsuleMeta) error {
	for i := range m.Programs {
		p := &m.Programs[i]
		if p.Image.HasSysV() {
			continue
		}
		s, err := loadQueues(point, m, p)
		if err != nil || s == nil {
			return err
		}
		return messagequeue.Restore(fmt.Sprintf("/proc/%d/ns/ipc", lc.capsule.PID()), s) // the other programs have the same
	}
	return nil
}
