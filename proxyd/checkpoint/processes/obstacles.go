// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/criu"
	"github.com/singularity-slurm/singularity-slurm/proxyd/landlock"
	"github.com/singularity-slurm/singularity-slurm/proxyd/mounts"
	"github.com/singularity-slurm/singularity-slurm/proxyd/procfs"
	"github.com/singularity-slurm/singularity-slurm/proxyd/tiles"
)

// Obstacle is a part of a job that cannot be captured.
type Obstacle struct {
	Program string
	PID     int // in the capsule; 0: not known, or What names the process
	Name    string
	What    string // what the process is or has; with PID 0 a whole sentence
	Cure    string // what the user can do about it

	// Set by the leader.
	Node  string
	Since time.Time // first attempt that found it
}

// WithSince sets the node, and the time at which the obstacle was first seen: the time of the same obstacle in before,
// or else now.
func (o Obstacle) WithSince(node string, now time.Time, before []Obstacle) Obstacle {
	o.Node = node
	for _, old := range before {
		sameThen := o
		sameThen.Since = old.Since
		if sameThen == old {
			return old
		}
	}
	o.Since = now
	return o
}

func (o Obstacle) String() string { return o.Describe(0) }

// Describe returns the obstacle in words. more counts the other processes of that name that have the same obstacle.
func (o Obstacle) Describe(more int) string {
	text := o.What
	switch {
	case o.PID != 0 && more > 0:
		text = fmt.Sprintf("%s (PID %d and %d more) %s", o.Name, o.PID, more, o.What)
	case o.PID != 0:
		text = fmt.Sprintf("%s (PID %d) %s", o.Name, o.PID, o.What)
	}
	if o.Cure != "" {
		text += ": " + o.Cure
	}
	return text
}

// uncapturableDevices have state outside of the process.
var uncapturableDevices = []struct{ prefix, what, cure string }{
	{"/dev/pts/", "has a terminal from outside of the program, ", criu.CureTerminal},
	{"/dev/nvidia", "holds a GPU by itself, ", criu.CureGPU},
	{"/dev/infiniband/", "holds an RDMA device, ", criu.CureRDMA},
	{"/dev/kvm", "runs a virtual machine, ", criu.CureMachine},
	{"/dev/fuse", "serves a file system, ", criu.CureFUSE},
	{"anon_inode:[io_uring]", "uses io_uring", criu.CureURing},
	{"anon_inode:[perf_event]", "measures performance counters", criu.CureCounters},
	{"anon_inode:bpf", "holds a BPF program or map", criu.CureBPF},
	{"anon_inode:[userfaultfd]", "handles page faults itself", criu.CurePageFaults},
}

// FindObstacles looks for parts of a capsule's programs that cannot be captured; init is the capsule's. CRIU finds the
// rest later; then the checkpoint only takes longer to fail. When ctx ends, the obstacles found so far are returned.
func FindObstacles(ctx context.Context, init int, programs []capsule.Program) []Obstacle {
	table, err := mounts.Of(init)
	if err != nil {
		return nil // the capsule has ended
	}
	search := descriptorSearch{init: init, queues: openQueues(init, table), files: nodeFilesOf(table),
		watched: overlays{init: init, table: table, opened: map[uint64]bool{}}}
	confined, users := landlock.FindConfined(init), tiles.FindUsers()
	programs = slices.DeleteFunc(slices.Clone(programs), func(p capsule.Program) bool { return p.Ended || p.Waiting })
	var found []Obstacle
	var members [][]int
	for _, p := range programs {
		pids := InCgroup(p.Cgroup)
		members = append(members, pids)
		own := readTerminals(ctx, init, pids)
		for _, pid := range pids {
			if ctx.Err() != nil {
				return found
			}
			found = append(found, search.findObstacles(ctx, p, pid, own)...)
			see := func(what, cure string) {
				if what != "" {
					found = append(found, Obstacle{Program: p.Name, PID: capsulePID(init, pid), Name: commandName(pid), What: what, Cure: cure})
				}
			}
			see(nestedNamespaces(init, pid), criu.CureContainer)
			see(confined.Describe(pid), criu.CureConfined)
			see(users.Describe(pid), criu.CureTiles)
			see(describeTracer(init, pid))
		}
	}
	found = append(found, findSharedSegments(ctx, init, programs, members)...)
	return append(found, findPeers(ctx, init, programs, members)...)
}

// nested are the namespaces in which CRIU dumps no process unless the program's first is there too
// (CLONE_SUBNS in criu/include/namespaces.h). A mount namespace of a user's comes with a user
// namespace.
var nested = []struct{ file, name string }{{"user", "user"}, {"pid", "PID"}, {"mnt", "mount"}}

// nestedNamespaces says in which namespaces a process is that are not its capsule's: those of a
// container that the program has started. "" if there are none, or the process has ended.
func nestedNamespaces(init, pid int) string {
	var names []string
	for _, ns := range nested {
		outer, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", init, ns.file))
		if err != nil {
			return ""
		}
		own, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, ns.file))
		if err != nil {
			return ""
		}
		if own != outer {
			names = append(names, ns.name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "is in a container of its own (" + strings.Join(names, ", ") + " namespace)"
}

// maxObstacles bounds the obstacles of a process, which all have names of their own: a process with so many is not
// captured, with or without further ones.
const maxObstacles = 64

// descriptorSearch looks for descriptors that cannot be captured, of processes of the capsule of init.
type descriptorSearch struct {
	init    int
	queues  queues
	files   nodeFiles
	watched overlays
}

// findObstacles returns what of a process's descriptors cannot be captured; own are the terminals of its program, p.
func (s *descriptorSearch) findObstacles(ctx context.Context, p capsule.Program, pid int, own terminals) []Obstacle {
	var found []Obstacle
	see := func(what, cure string) {
		o := Obstacle{Program: p.Name, PID: capsulePID(s.init, pid), Name: commandName(pid), What: what, Cure: cure}
		if !slices.Contains(found, o) {
			found = append(found, o)
		}
	}
	pmi := slurmPMI(pid)
	err := visitDescriptors(ctx, pid, func(d procfs.Descriptor) bool {
		link, err := d.Link()
		if err != nil || own.isOwn(d.Path(), link) {
			return ctx.Err() == nil
		}
		if strconv.Itoa(d.Number) == pmi && strings.HasPrefix(link, "socket:") {
			see("is connected to Slurm by srun --mpi=pmi2", "start MPI programs with mpiexec, others with --mpi=none")
		}
		if what, cure := s.queues.findObstacle(pid, d, link); what != "" {
			see(what, cure)
		}
		if s.files.isNodeFile(d, link) {
			see("has "+link+" open, a file of the node that the job does not see", nodeFileCure)
		}
		if isRemovedAndLinked(pid, s.files.capsule, d.Path(), link) {
			see("has "+strings.TrimSuffix(link, removedWord)+" open, which was removed but has another name", criu.CureLinkedFile)
		}
		if s.watched.isObstacle(d, link) {
			see("watches files of an overlay file system (inotify)", criu.CureWatch)
		}
		for _, device := range uncapturableDevices {
			if strings.HasPrefix(link, device.prefix) {
				if strings.HasSuffix(device.what, ", ") {
					see(device.what+link, device.cure)
				} else {
					see(device.what, device.cure)
				}
			}
		}
		return len(found) < maxObstacles && ctx.Err() == nil
	})
	if errors.Is(err, procfs.ErrTooMany) {
		see(fmt.Sprintf("has more than %d descriptors open", procfs.MaxDescriptors), "have it close files and sockets that it does not need")
	}
	return found // when ctx ends: those found so far
}
