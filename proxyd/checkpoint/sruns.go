// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/processes"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/steps"
	"github.com/singularity-slurm/singularity-slurm/proxyd/nodesocket"
	"github.com/singularity-slurm/singularity-slurm/proxyd/srun"
)

// SrunRequests answers the requests of the sruns of programs in capsules. All methods may be called concurrently.
type SrunRequests struct{ c *Conductor }

var _ nodesocket.SrunRequests = SrunRequests{}

// SrunRequests returns the handler of requests from the sruns of this node's capsules.
func (c *Conductor) SrunRequests() SrunRequests { return SrunRequests{c} }

// Admit returns nil if a caller is in a capsule.
func (s SrunRequests) Admit(who nodesocket.Peer) error {
	_, _, err := s.callerCapsule(who)
	return err
}

// Srun starts the real srun for a program of a capsule. A key names an srun that was started
// before the program was captured, or that has lost its runner; "" is a new srun. The caller's
// descriptors are received by a process of their own: see srun.Caller.
func (s SrunRequests) Srun(ctx context.Context, who nodesocket.Peer, key string, give func(to *os.File) error) {
	if err := s.receiveSrun(ctx, who, key, give); err != nil {
		s.c.Log.Warn("srun refused", "uid", who.UID, "pid", who.PID, "error", err)
	}
}

func (s SrunRequests) receiveSrun(ctx context.Context, who nodesocket.Peer, key string, give func(to *os.File) error) error {
	// Everything is read of the caller while it lives: it may end while it waits, and its PID
	// be given to another process. callerCapsule is the last to read, and then checks that
	// the caller is alive.
	inherited, err := srun.ReadInheritedLimits(who.PID)
	if err != nil {
		return err
	}
	_, lc, err := s.callerCapsule(who)
	if err != nil {
		return err
	}
	mounts, err := os.Open(fmt.Sprintf("/proc/%d/ns/mnt", lc.capsule.PID()))
	if err != nil {
		return err
	}
	defer mounts.Close()
	caller, err := srun.NewCaller(mounts, srun.User{UID: who.UID, GID: who.GID, Groups: who.Groups})
	if err != nil {
		return err
	}
	defer caller.Close(ctx)
	if err := give(caller.Connection()); err != nil {
		return err
	}
	if err := caller.Hear(ctx); err != nil {
		return err
	}
	err = lc.startSrun(ctx, srunCall{who: who, checkAlive: who.Alive, key: key, caller: caller, inherited: inherited})
	if err != nil {
		if err := caller.Refuse(err.Error()); err != nil {
			s.c.Log.Debug("cannot answer an srun", "error", err)
		}
	}
	return err
}

// srunCall is the request of a process for an srun.
type srunCall struct {
	who        nodesocket.Peer
	checkAlive func() error // Alive of who
	key        string       // "": a new srun
	caller     srunCaller
	inherited  *srun.InheritedLimits
}

// srunCaller is a srun.Caller.
type srunCaller interface {
	Start(ctx context.Context, s srun.StartSpec) (*srun.Runner, error)
	Report(key string, how syscall.WaitStatus) error
}

// startSrun starts an srun for a caller after its call has been received.
func (lc *localCapsule) startSrun(ctx context.Context, call srunCall) error {
	j, who, key := lc.j, call.who, call.key
	c := j.c
	err := call.awaitStart(ctx, lc)
	if err != nil {
		return err
	}
	again := key != ""
	if key, err = lc.keyFor(key); err != nil {
		return err
	}
	if again {
		done, err := lc.reportEarlierEnd(ctx, key, call.caller)
		if err != nil || done {
			return err
		}
	}
	var env []string
	if again {
		// keep the output that slurmstepd has written for the step so far
		env = append(env, "SLURM_OPEN_MODE=append")
	}
	snap := j.run.Snapshot()
	layout, err := steps.Layout(snap.Meta(), snap.Placement, key)
	if err == nil {
		layout.FewerGPUs, err = j.hasFewerGPUs(ctx)
	}
	if err != nil {
		return err
	}
	j.mu.Lock()
	now, was := lc.note.RunEnv, lc.note.FirstEnv
	j.mu.Unlock()
	cgroups, err := findCgroups(ctx, lc, who.PID)
	if err == nil {
		err = call.checkAlive() // else the PID may be another process's
	}
	if err != nil {
		return err
	}
	r, err := call.caller.Start(context.WithoutCancel(ctx), srun.StartSpec{
		Dir: filepath.Join(c.folders().srunDir(j.id, lc.index), key), Program: c.SrunPath, Env: env,
		Rewriting: srun.RewriteParameters{Layout: layout, Key: key, Job: now, Was: was, Release: c.Release, Help: c.Help, MPIDefault: c.MPIDefault},
		UID:       who.UID, GID: who.GID, Groups: who.Groups, Inherited: call.inherited,
		Cgroups: cgroups, Clean: steps.Outputs(snap.Meta(), key), Ask: c.Socket,
	})
	if err != nil {
		return err
	}
	j.log.Info("srun started", "capsule", lc.index, "key", key, "again", again)
	lc.sruns.Add(key, r)
	c.startBackground(func(ctx context.Context) { lc.followSrun(ctx, key, r) })
	return nil
}

// awaitStart waits until an srun may start for the caller, which is in this capsule. It returns an error if the caller has ended
// meanwhile.
func (call srunCall) awaitStart(ctx context.Context, lc *localCapsule) error {
	// The step would start while its caller is frozen. Instead the caller is captured in this
	// wait, and asks again after the restore.
	if m := lc.j.participant.currentMembership(); m != nil {
		if err := m.awaitEnd(ctx); err != nil {
			return err
		}
	}
	// An srun would fail while Slurm takes the job away, so the caller waits for that, too.
	if err := lc.awaitStayOrEnd(ctx, call.key); err != nil {
		return err
	}
	// A caller that has ended would have its srun ended at once.
	return call.checkAlive()
}

// followSrun removes an srun's state after its end.
func (lc *localCapsule) followSrun(ctx context.Context, key string, r *srun.Runner) {
	j := lc.j
	how, err := r.Wait(ctx)
	if ctx.Err() != nil {
		return
	}
	kept := !lc.sruns.RemoveEnded(key, r)
	j.log.Info("srun ended", "key", key, "status", describeEnd(how), "reported", !kept, "error", err)
	if kept {
		return // kept until the caller asks, or the job ends
	}
	j.mu.Lock()
	delete(lc.note.TaskCounts, key) // the step is over; the next change saves the note
	j.mu.Unlock()
	if err == nil {
		err = lc.forgetStepStatuses(ctx, key)
	}
	if err = errors.Join(err, r.Remove(ctx)); err != nil {
		j.log.Debug("srun", "key", key, "error", err)
	}
}

// reportEarlierEnd reports the status of an srun that has ended to a caller that asks again. It
// returns false if there is no such srun.
func (lc *localCapsule) reportEarlierEnd(ctx context.Context, key string, caller srunCaller) (bool, error) {
	status, known, err := lc.sruns.EndOf(ctx, key)
	if err != nil || !known {
		return false, err
	}
	return true, caller.Report(key, status)
}

// keyFor returns a new key for "", else it checks the key.
func (lc *localCapsule) keyFor(key string) (string, error) {
	j := lc.j
	j.mu.Lock()
	defer j.mu.Unlock()
	if key == "" {
		lc.note.SrunKeys++
		lc.saveNote()
		return steps.NewKey(lc.index, lc.note.SrunKeys), nil
	}
	return key, steps.CheckKey(lc.index, key)
}

// callerCapsule returns the capsule of a caller, by its PID namespace, which a process cannot
// forge. The caller is alive after its namespace was read, so the namespace was the caller's.
func (s SrunRequests) callerCapsule(who nodesocket.Peer) (*job, *localCapsule, error) {
	ns, err := os.Stat(fmt.Sprintf("/proc/%d/ns/pid", who.PID))
	if err == nil {
		err = who.Alive()
	}
	if err != nil {
		return nil, nil, err
	}
	for _, j := range s.c.jobs.allJobs() {
		for _, lc := range j.localCapsules() {
			of, err := os.Stat(fmt.Sprintf("/proc/%d/ns/pid", lc.capsule.PID()))
			if err != nil || !os.SameFile(ns, of) {
				continue
			}
			snap := j.run.Snapshot()
			owner := snap.Record.UID
			if who.UID != owner {
				return nil, nil, fmt.Errorf("uid %d is not the job's user", who.UID)
			}
			return j, lc, nil
		}
	}
	return nil, nil, errors.New("the caller is in no capsule")
}

// Signal sends a signal to an srun of the caller's capsule.
func (s SrunRequests) Signal(ctx context.Context, who nodesocket.Peer, key string, sig syscall.Signal) error {
	_, lc, err := s.callerCapsule(who)
	if err != nil {
		return err
	}
	r := lc.sruns.Get(key)
	if r == nil {
		return fmt.Errorf("srun %q: %w", key, errNoProcess)
	}
	return r.Signal(ctx, sig)
}

// forgetStepStatuses has the capsule's init drop the statuses of a step that is over.
func (lc *localCapsule) forgetStepStatuses(ctx context.Context, key string) error {
	all, err := lc.capsule.Ended(ctx)
	if err != nil {
		return err
	}
	var names []string
	for name := range all {
		if k, _, ok := records.ParseTaskName(name); ok && k == key {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return lc.capsule.Forget(ctx, names...)
}

// findCgroups returns the cgroups that the srun of a caller joins: those of the batch step, or, on a node without the batch
// script, those of the step to which the caller belongs. If that step's task has ended, the srun would escape from the job's
// limits, and from Slurm's end of the job.
func findCgroups(ctx context.Context, lc *localCapsule, caller int) ([]string, error) {
	program := records.BatchProgram
	if lc.index != 0 {
		var err error
		if program, err = findProgram(ctx, lc.capsule, caller); err != nil {
			return nil, err
		}
	}
	lc.j.mu.Lock()
	warden := lc.note.wardenOf(program)
	lc.j.mu.Unlock()
	all, err := processes.CgroupsOf(warden)
	if err != nil {
		return nil, fmt.Errorf("the cgroups of program %s: %w", program, err)
	}
	return all, nil
}
