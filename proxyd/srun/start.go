// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package srun

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
)

// StartSpec says how to run srun for a sing-srun that has asked for srun.
type StartSpec struct {
	Dir       string    // this srun's folder, absolute; made if missing, root's alone. Nothing else may be kept there
	Program   string    // the real srun; "" is /usr/bin/srun
	Env       []string  // variables besides the call's own
	Rewriting Rewriting // its Key is the step's

	// UID, GID and Groups are the peer's, as the kernel says. Nothing that the peer
	// says changes them.
	UID, GID uint32
	Groups   []uint32
	// Inherited are sing-srun's; srun passes the limits on to the tasks. nil: the starter's own.
	Inherited *InheritedLimits

	Cgroups []string // cgroup folders that srun is put into

	// Ask, if set, is the socket at which the runner asks before it tells that srun has failed:
	// Slurm may have ended srun with the job, which goes on elsewhere. tell_user.go draws this.
	Ask string // path of the socket

	// Clean are files in which slurmstepd wrote the step's output in an earlier run. What
	// slurmstepd wrote there about the end of that run is taken out: the step goes on.
	Clean []string
}

var (
	// ErrExists is returned by Start for a folder that has an srun already.
	ErrExists = errors.New("folder has an srun already")
	// ErrGone is wrapped by the error of Wait when the runner was killed: how srun ended is not
	// known, only that srun has ended.
	ErrGone = errors.New("its runner was killed")
)

// order is what a runner is to do, and passes on to the process that becomes srun. The call is
// not part of the order: the process that becomes srun reads the call, as the user.
type order struct {
	Tell      string // no srun: this is written to the status pipe, as the user, and nothing else done
	Dir       string
	Program   string
	Env       []string
	Rewriting Rewriting
	UID, GID  uint32
	Groups    []uint32
	Cgroups   []string
	Clean     []string
	Ask       string
	Limits    []Limit
	OOM       int
	OwnOOM    bool // OOM is not set
	Runner    int  // PID; set by the runner
}

// answer says that srun runs, or why not.
type answer struct {
	Error string
	Rec   record
}

// Descriptors that a runner starts with.
const (
	runnerOrders  = 3
	runnerAnswers = 4
	runnerStatus  = 5
	runnerStdin   = 6
	runnerStdout  = 7
	runnerStderr  = 8
	runnerMounts  = 9 // or /dev/null
	runnerCall    = 10

	// runnerConn is by what the call comes, before the status pipe takes its place.
	runnerConn = runnerStatus
	runnerLast = runnerCall
)

// Start runs the real srun and returns when srun has been executed; "key KEY" has then been
// written to the status pipe. The srun goes on when the process that started it ends: Find and
// Adopt return it. If Start fails, nothing has been written and nothing runs. The error
// is in words for the user, and Refuse can tell them.
//
// Start needs root. Under systemd it takes KillMode=process.
func (c *Caller) Start(ctx context.Context, s StartSpec) (*Runner, error) {
	r, err := c.startRunner(ctx, s)
	if err != nil {
		if !errors.Is(err, ErrExists) {
			_ = os.RemoveAll(s.Dir) // nothing runs that would miss the folder
		}
		return nil, err
	}
	return r, nil
}

func (c *Caller) startRunner(ctx context.Context, s StartSpec) (*Runner, error) {
	o := order{
		Dir: s.Dir, Program: s.Program, Env: s.Env, Rewriting: s.Rewriting,
		UID: s.UID, GID: s.GID, Groups: s.Groups, Cgroups: s.Cgroups, Clean: s.Clean, Ask: s.Ask, OwnOOM: s.Inherited == nil,
	}
	if o.Program == "" {
		o.Program = "/usr/bin/srun"
	}
	if s.Inherited != nil {
		o.Limits, o.OOM = s.Inherited.Limits, s.Inherited.OOM
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, err
	}
	if err := os.Chmod(s.Dir, 0o700); err != nil {
		return nil, err
	}
	if _, err := os.Lstat(filepath.Join(s.Dir, recordName)); !errors.Is(err, fs.ErrNotExist) {
		return nil, ErrExists
	}
	return c.launchRunner(ctx, s.Dir, o)
}

// launchRunner has the process carry out o.
func (c *Caller) launchRunner(ctx context.Context, dir string, o order) (*Runner, error) {
	defer localsock.InterruptAtEnd(ctx, func(t time.Time) error {
		return errors.Join(c.orders.SetWriteDeadline(t), c.answers.SetReadDeadline(t))
	})()
	var got answer
	err := c.to.Encode(o)
	if err == nil {
		err = c.from.Decode(&got)
	}
	switch {
	case err == nil && got.Error != "":
		return nil, errors.New(got.Error) // the process waits for the words of a refusal
	case ctx.Err() != nil:
		err = ctx.Err()
	case err != nil:
		err = fmt.Errorf("its runner died: %w", err)
	default:
		c.given = true
		return openRunner(dir, got.Rec)
	}
	c.killProcess()
	select {
	case <-c.ended:
	case <-time.After(killTime): // a file system does not answer; the process does no more than wait
	}
	return nil, err
}

// killTime is how long a process that was killed may take to end.
const killTime = 5 * time.Second

func duplicateFile(f *os.File) (int, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return -1, err
	}
	var fd int
	var inner error
	if err := raw.Control(func(old uintptr) { fd, inner = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 3) }); err != nil {
		return -1, err
	}
	return fd, inner
}

// reapChild waits for a child of ours.
func reapChild(pid int) (status syscall.WaitStatus) {
	for {
		if _, err := syscall.Wait4(pid, &status, 0, nil); !errors.Is(err, syscall.EINTR) {
			return status
		}
	}
}

// maxReason is what sing-srun has room for (REASON_SIZE), with something to spare.
const maxReason = 1000

func oneLine(s string) string {
	b := []byte(s[:min(len(s), maxReason)])
	for i := range b {
		if b[i] < ' ' {
			b[i] = ' '
		}
	}
	return string(b)
}

// describeStatus is a wait status in the words of the status pipe.
func describeStatus(how syscall.WaitStatus) string {
	if how.Signaled() {
		return fmt.Sprintf("signal %d", how.Signal())
	}
	return fmt.Sprintf("exit %d", how.ExitStatus())
}
