// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package capsule

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
)

// Capsule is a capsule that runs, or ran until a moment ago. A Capsule is safe for concurrent use.
// After the capsule's end, methods return an error that wraps ErrStale.
type Capsule struct {
	dir    string
	rec    record
	init   *pidfd
	reaped chan struct{} // closed when init has been reaped; nil if init is not a child of this process
}

// Adopt returns the capsule in dir, made by any process. The error wraps ErrStale if the capsule is gone; Discard then
// removes its remains.
func Adopt(ctx context.Context, dir string) (*Capsule, error) {
	rec, err := readRecord(dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = ErrStale // the maker died at the very start
	}
	if err != nil {
		return nil, fmt.Errorf("adopt %s: %w", dir, err)
	}
	init, err := rec.findInit()
	if err != nil {
		return nil, fmt.Errorf("adopt %s: %w", dir, err)
	}
	c := &Capsule{dir: dir, rec: rec, init: init}
	got, _, err := c.callInit(ctx, request{Op: opHello})
	if err == nil && got.ID != rec.ID {
		err = ErrStale
	}
	if err != nil {
		init.close()
		return nil, fmt.Errorf("adopt %s: %w", dir, err)
	}
	return c, nil
}

// Discard removes the capsule in dir, in any state. If the error is nil, no process, mount or file of the capsule is
// left. A missing folder is no error.
func Discard(ctx context.Context, dir string) error {
	rec, err := readRecord(dir)
	if err == nil {
		var init *pidfd
		if init, err = rec.findInit(); err == nil {
			return (&Capsule{dir: dir, rec: rec, init: init}).Remove(ctx)
		}
	}
	if !errors.Is(err, ErrStale) && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("discard %s: %w", dir, err)
	}
	if err := removeGroups(ctx, rec.Cgroups, rec.ID); err != nil {
		return fmt.Errorf("discard %s: %w", dir, err)
	}
	return os.RemoveAll(dir)
}

// Dir returns the capsule's folder.
func (c *Capsule) Dir() string { return c.dir }

// Hostname returns the capsule's host name.
func (c *Capsule) Hostname() string { return c.rec.Hostname }

// PID returns the PID of init in the maker's PID namespace, for logs, and for paths in /proc
// while the capsule is known to exist.
func (c *Capsule) PID() int { return c.rec.PID }

// namespaces are in the order in which they must be joined. PID comes last: no thread can be
// started after it. Init itself is no member of the time namespace.
var namespaces = []string{"mnt", "net", "uts", "ipc", "time_for_children", "pid"}

// Namespaces opens the capsule's namespaces: mount, network, UTS, IPC, time and PID, to be joined
// in this order. The caller closes them; an open namespace outlives the capsule. Without time
// namespaces in the kernel, the time namespace is missing.
func (c *Capsule) Namespaces() ([]*os.File, error) {
	var files []*os.File
	for _, kind := range namespaces {
		f, err := os.Open(fmt.Sprintf("/proc/%d/ns/%s", c.rec.PID, kind))
		if errors.Is(err, fs.ErrNotExist) && kind == "time_for_children" {
			continue
		}
		if err != nil {
			localsock.CloseAll(files)
			return nil, c.withCapsule("namespaces", err)
		}
		files = append(files, f)
	}
	if !c.init.alive() { // its PID may belong to another process now
		localsock.CloseAll(files)
		return nil, c.withCapsule("namespaces", ErrStale)
	}
	return files, nil
}

// Programs returns the programs of the capsule, ordered by name, including programs that wait to
// be restored. Ended programs are included only if they were captured.
func (c *Capsule) Programs(ctx context.Context) ([]Program, error) {
	all, err := c.listPrograms(ctx)
	if err != nil {
		return nil, err
	}
	for i := range all {
		p := &all[i]
		if p.Cgroup != "" {
			p.Frozen = c.outsidePath(p.Cgroup).frozen()
		}
		if p.Waiting || p.Ended {
			continue
		}
		if fd, err := c.openSteward(ctx, p.Name); err == nil {
			p.HostPID, _ = fd.pidHere() // 0: the steward has ended meanwhile
			fd.close()
		}
	}
	return all, nil
}

// listPrograms returns the programs as init knows them.
func (c *Capsule) listPrograms(ctx context.Context) ([]Program, error) {
	var all []Program
	ask := request{Op: opPrograms}
	for {
		got, _, err := c.callInit(ctx, ask)
		if err != nil {
			return nil, err
		}
		all = append(all, got.Programs...)
		if !got.More || len(got.Programs) == 0 {
			return all, nil
		}
		ask.Name = got.Programs[len(got.Programs)-1].Name
	}
}

// Ended returns the status of programs that ended by themselves or were killed, not of programs
// that were captured and released. Init remembers the newest 4096, each until Forget, or until a
// program of that name is started or restored.
func (c *Capsule) Ended(ctx context.Context) (map[string]syscall.WaitStatus, error) {
	all := map[string]syscall.WaitStatus{}
	ask := request{Op: opEnded}
	for {
		got, _, err := c.callInit(ctx, ask)
		if err != nil {
			return nil, err
		}
		for _, e := range got.Ended {
			all[e.Name], ask.Name = e.Status, e.Name
		}
		if !got.More || len(got.Ended) == 0 {
			return all, nil
		}
	}
}

// Forget drops programs from the result of Ended. An unknown program is no error.
func (c *Capsule) Forget(ctx context.Context, programs ...string) error {
	for some := range slices.Chunk(programs, maxPrograms) { // as many as fit into one packet
		if err := c.orderInit(ctx, request{Op: opForget, Names: some}); err != nil {
			return err
		}
	}
	return nil
}

// Pidfd returns a pidfd of a program's steward, for the caller to close.
func (c *Capsule) Pidfd(ctx context.Context, program string) (*os.File, error) {
	fd, err := c.openSteward(ctx, program)
	if err != nil {
		return nil, err
	}
	return fd.f, nil
}

func (c *Capsule) openSteward(ctx context.Context, program string) (*pidfd, error) {
	_, files, err := c.callInit(ctx, request{Op: opOpen, Name: program})
	if err != nil {
		return nil, err
	}
	if len(files) != 1 {
		localsock.CloseAll(files)
		return nil, c.withCapsule("open", errors.New("init sent no pidfd"))
	}
	return &pidfd{files[0]}, nil
}

// MarkCaptured marks a program as being captured: init does not act on its end or on its warden's end. Its warden stays
// when the program ends, until Release.
func (c *Capsule) MarkCaptured(ctx context.Context, program string) error {
	return c.orderInit(ctx, request{Op: opMark, Name: program})
}

// Unmark undoes MarkCaptured; init then acts on an end that it has ignored.
func (c *Capsule) Unmark(ctx context.Context, program string) error {
	return c.orderInit(ctx, request{Op: opUnmark, Name: program})
}

// Release forgets a program that was captured and has ended. Its warden, if still there, exits
// with status.
func (c *Capsule) Release(ctx context.Context, program string, status syscall.WaitStatus) error {
	return c.orderInit(ctx, request{Op: opRelease, Name: program, Status: status})
}

// Stdio returns descriptors 0, 1 and 2 of the warden that waits for a program's restore, for the
// caller to close.
func (c *Capsule) Stdio(ctx context.Context, program string) ([]*os.File, error) {
	_, files, err := c.callInit(ctx, request{Op: opStdio, Name: program})
	return files, err
}

// Restored joins a restored program to the warden that waits for the program. pid and first are the
// values at the capture; the steward must be init's child, and in Program.Cgroup if there is one.
// The restore must be run from that cgroup, with CRIU's manage-cgroups=ignore: otherwise CRIU
// creates the cgroup in which the program was dumped.
func (c *Capsule) Restored(ctx context.Context, program string, pid, first int) error {
	return c.orderInit(ctx, request{Op: opRestored, Name: program, PID: pid, First: first})
}

// Signal sends sig to every process of a program except its steward. SIGKILL ends the program
// with all descendants, marked or not.
func (c *Capsule) Signal(ctx context.Context, program string, sig syscall.Signal) error {
	return c.orderInit(ctx, request{Op: opSignal, Name: program, Signal: sig})
}

// TakeAllInput has the warden of a program write all standard input that arrives into the program's pipe, which the
// caller makes as large as needed, until PaceInput. Wardens of older releases, which have no such pipe, ignore the
// request. The error wraps ENOSYS if init is of an older release.
func (c *Capsule) TakeAllInput(ctx context.Context, program string) error {
	return c.orderInit(ctx, request{Op: opInput, Name: program, All: true})
}

// PaceInput undoes TakeAllInput: the pipe gets its usual size again as soon as its content fits, and the warden writes
// no input before that. It is harmless without TakeAllInput.
func (c *Capsule) PaceInput(ctx context.Context, program string) error {
	return c.orderInit(ctx, request{Op: opInput, Name: program})
}

// LastPID returns the newest PID of the capsule. Save the number at a capture.
func (c *Capsule) LastPID(ctx context.Context) (int, error) {
	got, _, err := c.callInit(ctx, request{Op: opLastPID})
	return got.LastPID, err
}

// LoadLastPID makes the capsule's PIDs continue after pid. In a capsule made with Spec.Restore,
// call it after the last restore, not before: the restorer needs PIDs that differ from the PIDs
// of the restored programs. If restores need many PIDs, a call with 0 before each makes the PIDs
// start again.
func (c *Capsule) LoadLastPID(ctx context.Context, pid int) error {
	return c.orderInit(ctx, request{Op: opSetPID, LastPID: pid})
}

// Clocks reads the capsule's clocks.
func (c *Capsule) Clocks(ctx context.Context) (Clocks, error) {
	got, _, err := c.callInit(ctx, request{Op: opClocks})
	if err != nil {
		return Clocks{}, err
	}
	return *got.Clocks, nil
}

// Watch calls f with events of the programs, with one call at a time, starting with a Present or
// Waiting event for each existing program. It returns ctx's error, an error wrapping ErrStale at
// the capsule's end, or another error if init has closed the connection: then events were lost, and
// Watch can be called again. f must not block for long.
func (c *Capsule) Watch(ctx context.Context, f func(Event)) error {
	s, err := localsock.Dial(filepath.Join(c.dir, controlName))
	if err != nil {
		return c.withCapsule("watch", err)
	}
	defer s.Close()
	defer localsock.InterruptAtEnd(ctx, s.SetDeadline)()
	got, files, err := exchangePackets(s, request{Op: opWatch})
	for err == nil {
		localsock.CloseAll(files)
		for _, e := range got.Events {
			f(e)
		}
		got, files, err = receiveReply(s)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return c.withCapsule("watch", err)
}

// Wait returns nil when the capsule and all its processes are gone.
func (c *Capsule) Wait(ctx context.Context) error {
	if c.reaped == nil {
		return c.init.wait(ctx)
	}
	select {
	case <-c.reaped:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Kill ends the capsule: if the error is nil, every process in it is dead. Its folder stays. The wardens of its
// programs then end by themselves, as after SIGKILL. Kill may be called twice.
func (c *Capsule) Kill(ctx context.Context) error {
	// The death of a PID namespace's first process is complete only when all other processes are
	// gone.
	if err := c.init.signal(unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return c.withCapsule("kill", err)
	}
	if err := c.Wait(ctx); err != nil {
		return err
	}
	return c.withCapsule("kill", removeGroups(ctx, c.rec.Cgroups, c.rec.ID))
}

// Remove ends the capsule and removes its folder, and closes the handle unless that fails.
func (c *Capsule) Remove(ctx context.Context) error {
	if err := c.Kill(ctx); err != nil {
		return err
	}
	c.Close()
	// The record is removed last: after a partial removal, Discard can continue.
	entries, err := os.ReadDir(c.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, e := range entries {
		if e.Name() != recordName {
			errs = append(errs, os.RemoveAll(filepath.Join(c.dir, e.Name())))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return c.withCapsule("remove", err)
	}
	return os.RemoveAll(c.dir)
}

// Close closes the handle; the capsule runs on.
func (c *Capsule) Close() { c.init.close() }

func (c *Capsule) orderInit(ctx context.Context, ask request) error {
	_, files, err := c.callInit(ctx, ask)
	localsock.CloseAll(files)
	return err
}

func (c *Capsule) callInit(ctx context.Context, ask request) (reply, []*os.File, error) {
	got, files, err := callControl(ctx, c.dir, ask)
	return got, files, c.withCapsule("", err)
}

// withCapsule adds the capsule's name to err, and ErrStale if that is the cause.
func (c *Capsule) withCapsule(what string, err error) error {
	if err == nil {
		return nil
	}
	var answered *remoteError
	if !errors.As(err, &answered) && !errors.Is(err, ErrStale) && !c.init.alive() {
		err = fmt.Errorf("%w (%w)", ErrStale, err)
	}
	if what != "" {
		err = fmt.Errorf("%s: %w", what, err)
	}
	return fmt.Errorf("capsule %s: %w", c.rec.Hostname, err)
}
