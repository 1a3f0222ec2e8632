// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package mandate

import (
	"context"
	"errors"
	"fmt"
	"time"

	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// far is how long from now the reservations begin. Slurm takes a job without a time limit for a job of a year.
const far = 3650 * 24 * time.Hour

// comments explain the reservations to administrators.
var comments = map[string]string{
	"works": "This preemptd works. It takes nothing from jobs. Others wait until it is gone.",
	"waits": "Another preemptd works. This one waits. One of them was started by mistake.",
}

func (m *Mandate) lookAtSlurm(ctx context.Context) (view, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	all, err := m.slurm.Reservations(ctx)
	if err != nil {
		return view{}, err
	}
	return viewOf(all, m.me), nil
}

// createReservation makes a reservation of ours. After a refused request the next call takes a node of Slurm's list
// as it is then. The end of ctx does not cut the request short: Slurm might make the reservation after Release has
// looked.
func (m *Mandate) createReservation(ctx context.Context, what string) error {
	if m.node == "" { // a large cluster's list may take its time
		nodes, err := m.slurm.Nodes(ctx)
		if err != nil {
			return err
		}
		for i := range nodes {
			if nodes[i].State.Base != "FUTURE" {
				m.node = nodes[i].Name
				break
			}
		}
		if m.node == "" {
			return errNoNode
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	err := m.slurm.CreateReservation(ctx, slurmrest.NewReservation{
		Name: fmt.Sprintf("preemptd:%s:%s", what, m.me), Start: time.Now().Add(far), Duration: time.Minute,
		Nodes: []string{m.node}, Users: []string{"root"}, Flags: []string{"IGNORE_JOBS", "OVERLAP"}, Comment: comments[what],
	})
	if err != nil {
		m.node = ""
	}
	return err
}

var errNoNode = errors.New("the cluster has no node")

// deleteReservation deletes a reservation. A reservation that is gone already is no error.
func (m *Mandate) deleteReservation(ctx context.Context, what, who string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := m.slurm.DeleteReservation(ctx, fmt.Sprintf("preemptd:%s:%s", what, who))
	if errors.Is(err, slurmrest.ErrNoReservation) {
		return nil
	}
	return err
}
