// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/preemptd/action"
	"github.com/singularity-slurm/singularity-slurm/preemptd/cluster"
	"github.com/singularity-slurm/singularity-slurm/preemptd/room"
)

// Rooms keeps room for jobs. *room.Keeper is a Rooms.
type Rooms interface {
	Keep(ctx context.Context, m room.Moment)
	Kept() map[int64][]string
}

// keepRooms keeps the room that is being made for waiting jobs from others. It is called when the
// actions of a tick have been written down, and before they are carried out.
func (l *Loop) keepRooms(ctx context.Context, settings Settings, seen cluster.Observation) error {
	if l.DryRun || l.Rooms == nil {
		return nil
	}
	open, err := l.Journal.Unfinished(ctx)
	if err != nil {
		return err
	}
	m := room.Moment{
		Time: seen.Time, Jobs: seen.Jobs, Nodes: seen.Nodes, Longest: settings.KeepRoom,
		Making: room.NodesByJob{}, Acting: map[int64]bool{},
	}
	for i := range open {
		m.Acting[open[i].Job] = true
		job, nodes, err := action.MakesRoom(&open[i])
		if err != nil {
			return err
		}
		if job == 0 {
			continue
		}
		for _, n := range nodes {
			if !slices.Contains(m.Making[job], n) {
				m.Making[job] = append(m.Making[job], n)
			}
		}
	}
	l.Rooms.Keep(ctx, m)
	return ctx.Err()
}
