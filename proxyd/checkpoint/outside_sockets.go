// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/outside"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/processes"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/reports"
	"github.com/singularity-slurm/singularity-slurm/proxyd/criu"
	"github.com/singularity-slurm/singularity-slurm/proxyd/overlay"
)

// findOutsideUnix returns the unix sockets of programs of a capsule that are connected to processes outside of the job.
func (lc outsidePart) findOutsideUnix(ctx context.Context, programs []capsule.Program) ([]processes.OutsideSocket, error) {
	var inJob []int
	for _, other := range lc.j.localCapsules() {
		all, err := other.capsule.Programs(ctx)
		if err != nil {
			return nil, err
		}
		inJob = append(inJob, other.capsule.PID())
		for _, p := range all {
			if !p.Ended && !p.Waiting {
				inJob = append(inJob, processes.InCgroup(p.Cgroup)...)
			}
		}
	}
	return processes.FindOutsideUnix(ctx, lc.capsule.PID(), programs, inJob)
}

// listOutsideUnix returns, by programs, the unix sockets that a dump is to leave connected to outside of the job.
func (lc outsidePart) listOutsideUnix(ctx context.Context, programs []capsule.Program) (map[string][]criu.OutsideSocket, error) {
	if lc.j.refusesOutside() {
		return nil, nil
	}
	found, err := lc.findOutsideUnix(ctx, programs)
	if err != nil {
		return nil, err
	}
	sockets := map[string][]criu.OutsideSocket{}
	type socketOf struct {
		program string
		inode   uint32
	}
	seen := map[socketOf]bool{} // several descriptors may share a socket
	for _, s := range found {
		if of := (socketOf{s.Program(), s.Inode}); !seen[of] {
			seen[of] = true
			sockets[s.Program()] = append(sockets[s.Program()], criu.OutsideSocket{Inode: s.Inode, To: s.To, Datagram: s.Datagram})
		}
	}
	return sockets, nil
}

// reportResetUnix tells the user which unix sockets of a restored program are connected no more.
func (lc outsidePart) reportResetUnix(program string, sockets []criu.OutsideSocket) {
	if len(sockets) == 0 {
		return
	}
	var to []string
	for _, s := range sockets {
		to = append(to, s.To)
	}
	slices.Sort(to)
	to = slices.Compact(to)
	lc.j.log.Info("unix sockets to outside of the job are reset", "capsule", lc.index, "program", program, "to", to)
	lc.j.report.AddEvent(records.EventReset, []string{lc.j.c.Node}, "connections to "+reports.JoinNames(to))
}

// resetOutside resets the connections of a restored program to outside of the job, except connections that the other side
// has not answered yet. The program is still frozen, and finds its connections reset when it runs: a client that looks at
// an idle connection before using it, such as urllib3, makes a new connection. The network is locked, so the program can
// have no newer connection to outside.
func (lc *localCapsule) resetOutside(ctx context.Context, p capsule.Program) error {
	j := lc.j
	sockets, err := lc.findOutside(ctx, []capsule.Program{p})
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
		if files[s.Link] != nil || s.Connecting || lc.outside != nil && lc.outside.Has(outside.Ends{From: s.From, To: s.To}) {
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
	if len(files) == 0 {
		return nil
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
