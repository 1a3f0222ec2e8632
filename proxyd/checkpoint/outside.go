// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/processes"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/reports"
	"github.com/singularity-slurm/singularity-slurm/proxyd/overlay"
)

// A TCP connection between a program and an address outside of the job cannot move with the
// program: the other end knows the connection by the address of the node. While the job runs on
// in place, such a connection lives through a checkpoint. At a restore it is reset before the
// program runs, which then learns at once what it would learn from a failure of the network. A
// connection between programs of the job is left alone.

// outsideRefuse is the value of the option "outside" with which such connections prevent a
// checkpoint.
const outsideRefuse = "refuse"

// What users can do about connections to outside.
const (
	cureRefused = "close it, or submit the job with --singularity-outside=reset"
	cureReset   = "a restore resets it, and the program has to connect again; with --singularity-outside=refuse the job is not captured meanwhile"
)

// refusesOutside tells whether the job is not captured while it has connections to outside.
func (j *job) refusesOutside() bool {
	return cmp.Or(j.run.Snapshot().Record.Options.Outside, j.c.Outside) == outsideRefuse
}

// findOutside returns the connections of programs of a capsule to outside of the job.
func (lc *localCapsule) findOutside(programs []capsule.Program) ([]processes.OutsideSocket, error) {
	j := lc.j
	return processes.FindOutside(lc.capsule.PID(), programs, j.run.Snapshot().Record.Addresses)
}

// findObstacles returns what in programs of a capsule cannot be captured, and the connections to
// outside that a restore would reset.
func (lc *localCapsule) findObstacles(programs []capsule.Program) (found, reset []processes.Obstacle, err error) {
	found = processes.FindObstacles(lc.capsule.PID(), programs)
	sockets, err := lc.findOutside(programs)
	if err != nil {
		return nil, nil, err
	}
	if lc.j.refusesOutside() {
		return append(found, processes.OutsideObstacles(sockets, cureRefused)...), nil, nil
	}
	return found, processes.OutsideObstacles(sockets, cureReset), nil
}

// resetOutside resets the connections of a restored program to outside of the job. The program is
// still frozen and finds them reset when it runs: a client that looks at an idle connection before
// it uses the connection, such as urllib3, makes a new one. The network is locked, so the program
// can have no newer connection to outside.
func (lc *localCapsule) resetOutside(p capsule.Program) error {
	j := lc.j
	sockets, err := lc.findOutside([]capsule.Program{p})
	if err != nil || len(sockets) == 0 {
		return err
	}
	files := map[string]*os.File{}
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	var to []string
	for _, s := range sockets {
		if files[s.Link] != nil {
			continue
		}
		f, err := s.Open()
		if errors.Is(err, unix.ESRCH) {
			continue // the process has ended
		}
		if err != nil {
			return fmt.Errorf("connection to %s: %w", s.To, err)
		}
		files[s.Link] = f
		to = append(to, s.To)
	}
	connections := make([]*os.File, 0, len(files))
	for _, f := range files {
		connections = append(connections, f)
	}
	if err := overlay.ResetConnections(lc.capsule.PID(), connections); err != nil {
		return err
	}
	slices.Sort(to)
	to = slices.Compact(to)
	j.log.Info("connections to outside of the job are reset", "capsule", lc.index, "program", p.Name, "to", to)
	j.report.AddEvent(records.EventReset, []string{j.c.Node}, "connections to "+reports.JoinNames(to))
	return nil
}
