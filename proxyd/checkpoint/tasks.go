// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"syscall"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/calls"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/processes"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/steps"
	"github.com/singularity-slurm/singularity-slurm/proxyd/nodesocket"
)

// errCapsuleLost prevents a checkpoint after a node has lost its capsules of the run.
var errCapsuleLost = errors.New("its capsule of this run is gone")

// errKilledMeanwhile prevents a checkpoint in which a task counts as ended that Slurm has killed, because Slurm waits
// no longer: the restored job would fail for that.
var errKilledMeanwhile = errors.New("was killed while the checkpoint was made")

// noteEndedBefore notes, at the beginning of an attempt, which programs have ended.
func (lc *localCapsule) noteEndedBefore(ctx context.Context) error {
	ended, err := lc.capsule.Ended(ctx)
	if err != nil {
		return err
	}
	lc.j.mu.Lock()
	defer lc.j.mu.Unlock()
	lc.endedBefore = ended
	return nil
}

// checkNoneKilled returns errKilledMeanwhile if one of the tasks that have ended was killed since the attempt began.
func (lc *localCapsule) checkNoneKilled(ended map[string]syscall.WaitStatus) error {
	lc.j.mu.Lock()
	defer lc.j.mu.Unlock()
	known := maps.Clone(lc.endedBefore)
	if known == nil {
		known = map[string]syscall.WaitStatus{}
	}
	maps.Copy(known, lc.note.FinishedTasks)
	return checkNoneKilled(known, ended)
}

// checkNoneKilled returns errKilledMeanwhile if a program that was killed is not among those that had ended before.
func checkNoneKilled(before, now map[string]syscall.WaitStatus) error {
	for _, program := range slices.Sorted(maps.Keys(now)) {
		if _, known := before[program]; !known && now[program].Signaled() && now[program].Signal() == syscall.SIGKILL {
			return fmt.Errorf("program %s %w", program, errKilledMeanwhile)
		}
	}
	return nil
}

// The PIDs of wardens are noted, because a successor of this daemon needs them. A process of
// another user may get a PID that was a warden's before: root would take the cgroups, the variables or the slurmstepd of a stranger's
// process for those of the job. So the note also says when each warden began, and package processes compares that.

// wardenOf returns the warden of a program. Without a note the result counts as ended. Caller holds job.mu.
func (n *capsuleNote) wardenOf(program string) processes.Process {
	return processes.Process{PID: n.WardenPIDs[program], Started: n.WardenStarts[program]}
}

// setWarden notes the warden of a program. Caller holds job.mu.
func (n *capsuleNote) setWarden(program string, w processes.Process) {
	if n.WardenStarts == nil {
		n.WardenStarts = map[string]uint64{}
	}
	n.WardenPIDs[program], n.WardenStarts[program] = w.PID, w.Started
}

// forgetWarden forgets the warden of a program that has begun and ended, unless another process has the program meanwhile: a
// job may have any number of steps. Caller holds job.mu.
func (n *capsuleNote) forgetWarden(program string, pid int) {
	if pid != 0 && n.WardenPIDs[program] == pid {
		delete(n.WardenPIDs, program)
		delete(n.WardenStarts, program)
	}
}

// addWardenStarts adds the starts of the wardens to the note of a daemon that did not write them down.
func (n *capsuleNote) addWardenStarts() {
	known := maps.Clone(n.WardenPIDs)
	maps.DeleteFunc(known, func(program string, _ int) bool { return n.WardenStarts[program] != 0 })
	for program, pid := range known {
		if w, err := processes.NewProcess(pid); err == nil {
			n.setWarden(program, w)
		}
	}
}

// setTaskCount notes the number of tasks of a step. Caller holds job.mu.
func (lc *localCapsule) setTaskCount(t nodesocket.Join) {
	if t.Step == records.BatchProgram || t.Tasks == 0 {
		return
	}
	if lc.note.TaskCounts == nil {
		lc.note.TaskCounts = map[string]int{}
	}
	key, _, _ := records.ParseTaskName(records.TaskName(t.Key, t.Step, t.Task))
	lc.note.TaskCounts[key] = t.Tasks
	lc.note.boundTaskCounts()
}

// maxTaskCounts bounds the steps of which a note has the number of tasks: a job may have any number of steps, and the note is
// written at the start of each.
const maxTaskCounts = 4096

// boundTaskCounts forgets, where there are too many, the numbers of tasks of the oldest steps that have no process here. The
// node of the srun forgets a step when it is over; other nodes are not told. Caller holds job.mu.
func (n *capsuleNote) boundTaskCounts() {
	if len(n.TaskCounts) <= maxTaskCounts {
		return
	}
	used := map[string]bool{}
	for program := range n.WardenPIDs {
		if key, _, ok := records.ParseTaskName(program); ok {
			used[key] = true
		}
	}
	var idle []string
	for key := range n.TaskCounts {
		if !used[key] {
			idle = append(idle, key)
		}
	}
	slices.SortFunc(idle, func(a, b string) int { return steps.KeyNumber(a) - steps.KeyNumber(b) })
	for _, key := range idle[:min(len(idle), len(n.TaskCounts)-maxTaskCounts/2)] {
		delete(n.TaskCounts, key)
	}
}

// recordFinishedTask notes a task that ended before the restored checkpoint and does not run
// again. The next checkpoint must contain the note.
func (j *job) recordFinishedTask(index int, t nodesocket.Join, program string, status syscall.WaitStatus) {
	j.mu.Lock()
	defer j.mu.Unlock()
	lc := j.capsules[index]
	if lc == nil {
		return
	}
	if lc.note.FinishedTasks == nil {
		lc.note.FinishedTasks = map[string]syscall.WaitStatus{}
	}
	lc.note.FinishedTasks[program] = status
	lc.setTaskCount(t)
	lc.saveNote()
}

// countTasks adds the tasks that a capsule has, or had, to r.
func (lc *localCapsule) countTasks(ctx context.Context, programs []capsule.Program, r *calls.PrepareReply) error {
	j := lc.j
	ended, err := lc.capsule.Ended(ctx)
	if err != nil {
		return err
	}
	notBegun, err := lc.tasksNotBegun(ctx)
	if err != nil {
		return err
	}
	j.mu.Lock()
	n := steps.Count(lc.note.TaskCounts, programs, ended, lc.note.FinishedTasks, notBegun)
	j.mu.Unlock()
	if r.TaskCounts == nil {
		r.TaskCounts, r.TasksHere = map[string]int{}, map[string]int{}
	}
	maps.Copy(r.TaskCounts, n.Everywhere)
	for key, n := range n.Here {
		r.TasksHere[key] += n
	}
	return nil
}

// tasksNotBegun returns the tasks that were admitted here, and whose processes have ended before their
// programs began: Slurm's SIGTERM, for example, came to a process that was not sing-warden yet. The restore
// begins these tasks.
func (lc *localCapsule) tasksNotBegun(ctx context.Context) ([]string, error) {
	lc.j.mu.Lock()
	wardens := map[string]processes.Process{}
	for program := range lc.note.WardenPIDs {
		wardens[program] = lc.note.wardenOf(program)
	}
	lc.j.mu.Unlock()
	// The processes first: the capsule's init knows each program that began, so it knows the programs of
	// those that have ended.
	maps.DeleteFunc(wardens, func(program string, w processes.Process) bool {
		_, _, ok := records.ParseTaskName(program)
		return !ok || !w.HasEnded()
	})
	if len(wardens) == 0 {
		return nil, nil
	}
	programs, err := lc.capsule.Programs(ctx)
	if err != nil {
		return nil, err
	}
	ended, err := lc.capsule.Ended(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range programs {
		delete(wardens, p.Name)
	}
	maps.DeleteFunc(wardens, func(program string, _ processes.Process) bool { _, ok := ended[program]; return ok })
	return slices.Sorted(maps.Keys(wardens)), nil
}

// checkComplete returns an error if a part of the job is missing, as far as the replies show.
func (a *attempt) checkComplete() error {
	j := a.j
	snap := j.run.Snapshot()
	point, where := snap.Point, snap.Placement
	if point != nil {
		for node := range point.NodesWithPart(where) {
			if r := a.reports[node]; r == nil || r.Capsules == 0 {
				return fmt.Errorf("node %s: %w", node, errCapsuleLost)
			}
		}
	}
	var counts []steps.Counts
	for _, r := range a.reports {
		counts = append(counts, steps.Counts{Everywhere: r.TaskCounts, Here: r.TasksHere})
	}
	return steps.CheckComplete(a.runningSteps(), counts)
}

// describeTasks notes in m the tasks of the running steps that have no program: those that have ended, and
// those that had not begun.
func (lc *localCapsule) describeTasks(ctx context.Context, m *records.CapsuleMeta, running []string) (err error) {
	if m.Ended, err = lc.endedTasks(ctx, running); err != nil {
		return err
	}
	if err := lc.checkNoneKilled(m.Ended); err != nil {
		return err
	}
	m.NotBegun, err = lc.tasksNotBegun(ctx)
	m.NotBegun = slices.DeleteFunc(m.NotBegun, func(program string) bool {
		key, _, _ := records.ParseTaskName(program)
		return !slices.Contains(running, key)
	})
	return err
}

// endedTasks returns the tasks that have ended, with their status, of steps that still run. After
// a restart Slurm starts these tasks again, and they must not run.
func (lc *localCapsule) endedTasks(ctx context.Context, running []string) (map[string]syscall.WaitStatus, error) {
	j := lc.j
	all, err := lc.capsule.Ended(ctx)
	if err != nil {
		return nil, err
	}
	programs, err := lc.capsule.Programs(ctx)
	if err != nil {
		return nil, err
	}
	late, err := steps.EndedCaptured(programs)
	if err != nil {
		return nil, err
	}
	maps.Copy(all, late)
	kept := map[string]syscall.WaitStatus{}
	j.mu.Lock()
	maps.Copy(kept, lc.note.FinishedTasks)
	j.mu.Unlock()
	maps.Copy(kept, all)
	maps.DeleteFunc(kept, func(name string, _ syscall.WaitStatus) bool {
		key, _, ok := records.ParseTaskName(name)
		return !ok || !slices.Contains(running, key)
	})
	return kept, nil
}

// runningSteps returns the keys of the steps that have an srun, on any node.
func (a *attempt) runningSteps() []string {
	var all []string
	for _, r := range a.reports {
		all = append(all, r.Steps...)
	}
	return all
}
