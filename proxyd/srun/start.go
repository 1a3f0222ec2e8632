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
	Dir       string            // this srun's folder, absolute; made if missing, root's alone. Keep no other files there
	Program   string            // the real srun; "" is /usr/bin/srun
	Env       []string          // variables besides the call's own
	Rewriting RewriteParameters // its Key is the step's

	// UID, GID and Groups are the peer's, as the kernel names them. No message of the peer changes them.
	UID, GID uint32
	Groups   []uint32
	// Inherited are the limits of sing-srun; srun passes them on to the tasks. nil: the starter's own limits.
	Inherited *InheritedLimits

	Cgroups []string // cgroup folders that srun is put into

	// Ask, if set, is the socket at which the runner asks before it tells the user that srun has failed: Slurm may have
	// ended srun with the job, which goes on elsewhere. tell_user.go draws this.
	Ask string // path of the socket

	// Clean are files in which slurmstepd wrote the step's output in an earlier run. Its lines about the end of that run
	// are taken out: the step goes on.
	Clean []string
}

var (
	// ErrExists is returned by Start for a folder that has an srun already.
	ErrExists = errors.New("folder has an srun already")
	// ErrGone is wrapped by the error of Wait when the runner was killed: srun has ended with an unknown status.
	ErrGone = errors.New("its runner was killed")
)

// order tells a runner what to do; the runner passes it on to the process that becomes srun. The call is not part of
// the order: the process that becomes srun reads the call, as the user.
type order struct {
	Tell      string // start no srun: only write this to the status pipe, as the user
	Dir       string
	Program   string
	Env       []string
	Rewriting RewriteParameters
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

// answer says that srun runs, or has the error.
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

	// runnerConn is the connection on which the call comes; then the status pipe takes its descriptor.
	runnerConn = runnerStatus
	runnerLast = runnerCall
)

// Start runs the real srun and returns when srun has been executed; "key KEY" has then been written to the status pipe.
// The srun goes on when the process that started it ends: Find and Adopt return the srun. If Start fails, the status
// pipe is untouched and no srun runs. The error's text is for the user, by Refuse.
//
// Start needs root. Under systemd it takes KillMode=process.
func (c *Caller) Start(ctx context.Context, s StartSpec) (*Runner, error) {
	r, err := c.startRunner(ctx, s)
	if err != nil {
		if !errors.Is(err, ErrExists) {
			_ = os.RemoveAll(s.Dir) // no process runs that would miss the folder
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
		return nil, errors.New(got.Error) // the process now waits for an order to write a refusal
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
	case <-time.After(killTime): // a file system does not answer; the process only waits for that file system
	}
	return nil, err
}

// killTime is the time that a process may take to end after it was killed.
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

// maxReason is the length for which sing-srun has room (REASON_SIZE), less a reserve.
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
