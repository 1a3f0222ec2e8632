// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/calls"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/processes"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/overlay"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
	"github.com/singularity-slurm/singularity-slurm/proxyd/syscalls"
	"github.com/singularity-slurm/singularity-slurm/proxyd/waits"
)

// freezeTasks freezes the tasks of steps on all nodes. The batch script runs on, because the
// script may read the tasks' output.
func (a *attempt) freezeTasks(ctx context.Context) error {
	return callNodesTogether(ctx, a, calls.Freeze, calls.Empty{})
}

// freezeBatch freezes the batch script and locks the network. From then on sing-srun passes on no standard input, and
// the wait for the input on its way has an end.
func (a *attempt) freezeBatch(ctx context.Context) error {
	if err := callNodesTogether(ctx, a, calls.Halt, calls.Empty{}); err != nil {
		return err
	}
	return a.drainInput(ctx)
}

// resumeJob lets the job run on, on all nodes.
func (a *attempt) resumeJob(ctx context.Context) error {
	return a.callEveryNode(ctx, calls.Resume)
}

func (p *participant) freezeHere(ctx context.Context, id store.ID, _ calls.Empty) (calls.Empty, error) {
	return calls.Empty{}, p.freezeUnlessOver(id, func() error {
		if err := p.noteAttempt(id); err != nil { // a successor of this daemon undoes a pause, too
			return err
		}
		for _, lc := range p.j.localCapsules() {
			if err := outsideOf(lc).pauseClients(ctx); err != nil {
				return err
			}
		}
		return p.freezePrograms(ctx, id, func(p capsule.Program) bool { return p.Name != records.BatchProgram })
	})
}

func (p *participant) freezeBatchHere(ctx context.Context, id store.ID, _ calls.Empty) (calls.Empty, error) {
	j := p.j
	return calls.Empty{}, p.freezeUnlessOver(id, func() error {
		if err := p.freezePrograms(ctx, id, func(p capsule.Program) bool { return p.Name == records.BatchProgram }); err != nil {
			return err
		}
		for _, lc := range j.localCapsules() {
			if err := outsideOf(lc).holdForwarder(ctx); err != nil {
				return err
			}
			if err := overlay.Lock(lc.capsule.PID()); err != nil {
				return err
			}
		}
		return nil
	})
}

// freezeUnlessOver freezes programs by calling do, for the attempt id. The attempt may end
// meanwhile, because the leader's deadline has passed. Then the resume may have come before the
// freeze, so the programs are thawed once more here. A newer attempt thaws them at its own end.
func (p *participant) freezeUnlessOver(id store.ID, do func() error) error {
	j := p.j
	if _, err := p.membershipIn(id); err != nil {
		return err
	}
	err := do()
	if p.currentMembership() == nil {
		j.c.startBackground(func(ctx context.Context) { p.resolveOrphaned(ctx, id, false) })
		err = errors.Join(err, errOtherAttempt)
	}
	return err
}

// noteAttempt notes the attempt id for a successor of this daemon, and bounds the wait for the leader.
func (p *participant) noteAttempt(id store.ID) error {
	j := p.j
	m, err := p.membershipIn(id)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.armLeaderTimeout(m)
	p.mu.Unlock()
	for _, lc := range j.localCapsules() {
		j.mu.Lock()
		lc.note.Attempt = &pendingAttempt{m.id.Number, m.release}
		lc.saveNote()
		j.mu.Unlock()
		lc.inputs.Begin(m.id.Number)
	}
	return nil
}

// freezePrograms marks the chosen programs as captured and freezes them. The mark makes the end
// of a warden harmless, should Slurm kill the warden now.
func (p *participant) freezePrograms(ctx context.Context, id store.ID, which func(capsule.Program) bool) error {
	j := p.j
	if err := p.noteAttempt(id); err != nil {
		return err
	}
	for _, lc := range j.localCapsules() {
		programs, err := processes.RunningPrograms(ctx, lc.capsule)
		if err != nil {
			return err
		}
		var names []string
		for _, program := range programs {
			if !which(program) {
				continue
			}
			names = append(names, program.Name)
			if err := inputOf(lc, program, id.Number).keepInputRelay(); err != nil {
				return err
			}
			if err := lc.capsule.MarkCaptured(ctx, program.Name); err != nil && !isGone(err) {
				return err
			}
		}
		if len(names) == 0 {
			continue
		}
		observed, err := syscalls.Observe(lc.capsule.PID())
		if err != nil {
			j.log.Debug("calls of epoll_wait with a timeout are interrupted", "capsule", lc.index, "error", err)
		}
		j.mu.Lock()
		for _, name := range names {
			lc.setObservedState(name, observed)
		}
		j.mu.Unlock()
		if err := lc.capsule.Freeze(ctx, names...); err != nil && !isGone(err) {
			return fmt.Errorf("freeze: %w", err)
		}
		if err := lc.freezeDisconnected(ctx, names); err != nil && !isGone(err) {
			return fmt.Errorf("freeze: %w", err)
		}
	}
	return nil
}

// setObservedState keeps the state of a program from before the freeze. Caller holds job.mu.
func (lc *localCapsule) setObservedState(program string, o syscalls.WaitObservations) {
	if lc.observed == nil {
		lc.observed = map[string]syscalls.WaitObservations{}
	}
	lc.observed[program] = o
}

// resumeRetrying is resumeHere, and repeats in the background after a failure: no other node
// would repeat the call.
func (p *participant) resumeRetrying(ctx context.Context, id store.ID, _ calls.Empty) (calls.Empty, error) {
	j := p.j
	err := p.resumeHere(ctx, id)
	if err != nil {
		j.c.startBackground(func(ctx context.Context) { p.resolveOrphaned(ctx, id, false) })
	}
	return calls.Empty{}, err
}

// resumeHere ends this node's membership and thaws its programs. It is harmless at any point of an
// attempt, and a second time.
func (p *participant) resumeHere(ctx context.Context, id store.ID) error {
	j := p.j
	m := p.leaveAttempt(id, false)
	if m == nil {
		return nil // The membership never began, or has ended.
	}
	defer close(m.done)
	var errs []error
	errs = append(errs, p.endDump(ctx, m))
	m.releaseStageRoom()
	for _, lc := range j.localCapsules() {
		errs = append(errs, lc.thawCapsule(ctx))
	}
	return errors.Join(errs...)
}

// thawCapsule undoes everything that an attempt did to a capsule.
func (lc *localCapsule) thawCapsule(ctx context.Context) error {
	j := lc.j
	j.mu.Lock()
	restoring := lc.note.NetworkLocked
	lc.note.Attempt = nil
	lc.saveNote()
	dumped := lc.dumped
	lc.dumped, lc.observed = nil, nil
	j.mu.Unlock()
	lc.inputs.Forget()
	if err := lc.sruns.PaceOutput(ctx); err != nil {
		j.log.Info("output does not wait for its reader", "capsule", lc.index, "error", err)
	}
	var errs []error
	if !restoring {
		errs = append(errs, overlay.Unlock(lc.capsule.PID()))
	}
	if !restoring { // else programs are still to open these files
		errs = append(errs, lc.unlinkRemoved())
	}
	programs, err := lc.capsule.Programs(ctx)
	errs = append(errs, err)
	for _, p := range programs {
		if p.Frozen {
			if img := dumped[p.Name]; img != nil {
				if err := img.SetTimeLeft(); err != nil {
					j.log.Warn("system calls that wait may wait longer", "capsule", lc.index, "program", p.Name, "error", err)
				}
			}
			if err := lc.capsule.Thaw(ctx, p.Name); err != nil && !isGone(err) {
				errs = append(errs, err)
			}
		}
		if err := inputOf(lc, p, 0).paceWarden(ctx); err != nil {
			errs = append(errs, err)
		}
		if p.Captured {
			if err := lc.capsule.Unmark(ctx, p.Name); err != nil && !isGone(err) {
				errs = append(errs, err)
			}
		}
	}
	if !restoring { // last: its user decides whether the forwarder answers
		errs = append(errs, outsideOf(lc).releaseForwarder(ctx))
	}
	return errors.Join(errs...)
}

// Answers of the capsule's init when a program, or its processes, have ended.
const (
	errNoProgram = syscall.ENOENT
	errNoProcess = syscall.ESRCH
)

// isGone tells whether an operation failed because the program had ended.
func isGone(err error) bool {
	return errors.Is(err, errNoProgram) || errors.Is(err, errNoProcess)
}

// A process that asks its device server for a ring is connected to the server for a tenth of a
// millisecond, again and again while the job's devices are stopped. CRIU cannot dump a process
// that is frozen in such a moment, because the other end of the socket is outside of the capsule.
// So the process is thawed until it has closed the socket, and frozen again.

const (
	connectionPollInterval = time.Millisecond
	connectionPolls        = 100 // before the programs are frozen once more
	freezeTries            = 20
)

var errAlwaysConnected = errors.New("a process stays connected to the device server")

// freezeDisconnected thaws and freezes frozen programs until none of them is connected to the
// capsule's device server. A program that is not frozen closes its connection by itself.
func (lc *localCapsule) freezeDisconnected(ctx context.Context, programs []string) error {
	if lc.devices == nil {
		return nil
	}
	isConnected := func() (bool, error) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/unix", lc.capsule.PID()))
		return err == nil && hasDeviceConnection(string(b)), err
	}
	for range freezeTries {
		is, err := isConnected()
		if err != nil || !is {
			return err
		}
		if err := lc.capsule.Thaw(ctx, programs...); err != nil {
			return err
		}
		for range connectionPolls {
			if is, err = isConnected(); err != nil {
				return err
			}
			if !is {
				break
			}
			if !waits.SleepUnlessDone(ctx, connectionPollInterval) { // the kernel sends no notice of a closed socket
				return context.Cause(ctx)
			}
		}
		if err := lc.capsule.Freeze(ctx, programs...); err != nil {
			return err
		}
	}
	return errAlwaysConnected
}

// hasDeviceConnection tells whether the table of a network namespace's unix sockets lists a
// connection to the device server. Such a socket has the server's name, from before the server
// accepts the connection until the server has seen its end.
func hasDeviceConnection(table string) bool {
	const listens = "00010000"
	for line := range strings.Lines(table) {
		// Num RefCount Protocol Flags Type St Inode Path
		w := strings.Fields(line)
		if len(w) == 8 && w[3] != listens && w[4] == "0005" && strings.HasSuffix(w[7], "/"+deviceSocket) {
			return true
		}
	}
	return false
}
