// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package srun

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// StartSpec says how to run srun for a sing-srun that has asked for it.
type StartSpec struct {
	Dir       string // this srun's folder, absolute; made if missing, root's alone. Nothing else may be kept in it
	Program   string // the real srun; "" is /usr/bin/srun
	Call      *Call
	Rewriting Rewriting // its Key is the step's

	Stdin, Stdout, Stderr, Status *os.File // what sing-srun has sent; they stay the caller's

	// UID, GID and Groups are the peer's, as the kernel says. Nothing that the peer
	// says changes them.
	UID, GID uint32
	Groups   []uint32
	// Peer is the PID of sing-srun. srun gets its limits and oom_score_adj, and passes
	// the limits on to the tasks. 0: the caller's own.
	Peer int

	// Mounts, if set, is the mount namespace of the capsule. srun then sees its files
	// (/tmp!), but the node's /proc, and the real srun where the capsule has sing-srun.
	Mounts  *os.File
	Cgroups []string // cgroup folders that srun is put into

	// Ask, if set, is called by the runner before it tells that srun has failed: Slurm may
	// have ended it with the job, which goes on elsewhere. See AskMay.
	Ask string // path of the socket

	// Clean are files in which slurmstepd wrote the step's output in an earlier run. What
	// it said there about the end of that run is taken out: the step goes on.
	Clean []string
}

var (
	// ErrExists is returned by Start for a folder that has an srun already.
	ErrExists = errors.New("folder has an srun already")
	// ErrGone is wrapped by the error of Wait when the runner was killed: how srun
	// ended is not known, only that it did.
	ErrGone = errors.New("its runner was killed")
)

// order is what a runner is to do, and passes on to the process that becomes srun.
// It is sent as gob: arguments and environment may hold any bytes.
type order struct {
	Dir       string
	Program   string
	Call      Call
	Rewriting Rewriting
	UID, GID  uint32
	Groups    []uint32
	Cgroups   []string
	Clean     []string
	Ask       string
	Limits    []Limit
	OOM       int
	Mounts    bool
	Runner    int // PID; set by the runner
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
)

// Start runs the real srun and returns when it has been executed; "key KEY" has then
// been written to the status pipe. The srun goes on when the process that started it ends:
// Find and Adopt give it back. If Start fails, nothing has been written and nothing runs.
//
// Start needs root. Under systemd it takes KillMode=process.
func Start(ctx context.Context, s StartSpec) (*Runner, error) {
	r, err := start(ctx, s)
	if err != nil {
		if !errors.Is(err, ErrExists) {
			_ = os.RemoveAll(s.Dir) // nothing runs that would miss it
		}
		return nil, fmt.Errorf("srun %s: %w", s.Rewriting.Key, err)
	}
	return r, nil
}

func start(ctx context.Context, s StartSpec) (*Runner, error) {
	o := order{
		Dir: s.Dir, Program: s.Program, Call: *s.Call, Rewriting: s.Rewriting,
		UID: s.UID, GID: s.GID, Groups: s.Groups, Cgroups: s.Cgroups, Clean: s.Clean, Ask: s.Ask, Mounts: s.Mounts != nil,
	}
	if o.Program == "" {
		o.Program = "/usr/bin/srun"
	}
	if s.Peer != 0 {
		var err error
		if o.Limits, o.OOM, err = peerLimits(s.Peer); err != nil {
			return nil, err
		}
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
	return launch(ctx, s, o)
}

// launch starts the runner and has it carry out o.
func launch(ctx context.Context, s StartSpec, o order) (*Runner, error) {
	orderR, orderW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer orderW.Close()
	defer orderR.Close()
	answerR, answerW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer answerR.Close()
	defer answerW.Close()
	pid, err := spawn(s, orderR, answerW)
	if err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	go func() {
		reap(pid)
		close(ended)
	}()
	orderR.Close()
	answerW.Close()
	defer context.AfterFunc(ctx, func() {
		orderW.Close()
		answerR.Close()
	})()
	var got answer
	err = gob.NewEncoder(orderW).Encode(o)
	orderW.Close()
	if err == nil {
		err = gob.NewDecoder(answerR).Decode(&got)
	}
	switch {
	case err == nil && got.Error != "":
		err = errors.New(got.Error)
	case ctx.Err() != nil:
		err = ctx.Err()
	case err != nil:
		err = fmt.Errorf("its runner died: %w", err)
	default:
		return open(s.Dir, got.Rec)
	}
	_ = unix.Kill(pid, unix.SIGKILL) // not reaped before ended is closed, unless it has ended
	<-ended
	return nil, err
}

// spawn starts the runner's process. Descriptors are passed by number and not as
// *os.File: making a file's descriptor available for a child clears O_NONBLOCK, and
// that flag belongs to the user's programs too.
func spawn(s StartSpec, orders, answers *os.File) (int, error) {
	log, err := os.OpenFile(filepath.Join(s.Dir, logName), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	mounts := s.Mounts
	if mounts == nil {
		mounts = null
	}
	var fds []uintptr
	defer func() {
		for _, fd := range fds {
			_ = unix.Close(int(fd))
		}
	}()
	for _, f := range []*os.File{null, log, log, orders, answers, s.Status, s.Stdin, s.Stdout, s.Stderr, mounts} {
		fd, err := duplicate(f)
		if err != nil {
			return 0, err
		}
		fds = append(fds, uintptr(fd))
	}
	return syscall.ForkExec("/proc/self/exe", []string{"singularity-srun", Arg}, &syscall.ProcAttr{
		Dir: "/", Env: []string{"GOMAXPROCS=2", "GOGC=20"}, Files: fds, Sys: &syscall.SysProcAttr{Setsid: true},
	})
}

func duplicate(f *os.File) (int, error) {
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

// reap waits for a child of ours.
func reap(pid int) (status syscall.WaitStatus) {
	for {
		if _, err := syscall.Wait4(pid, &status, 0, nil); !errors.Is(err, syscall.EINTR) {
			return status
		}
	}
}

// Report tells a sing-srun how its srun has ended, when no runner does it any more: it
// asked again for one that has ended.
func Report(status *os.File, key string, how syscall.WaitStatus) error {
	_, err := fmt.Fprintf(status, "key %s\n%s\n", key, describe(how))
	return err
}

// Refuse tells a sing-srun that there will be no srun, and the user why.
func Refuse(status *os.File, reason string) error {
	_, err := fmt.Fprintf(status, "no %s\n", oneLine(reason))
	return err
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

// describe is a wait status in the words of the status pipe.
func describe(how syscall.WaitStatus) string {
	if how.Signaled() {
		return fmt.Sprintf("signal %d", how.Signal())
	}
	return fmt.Sprintf("exit %d", how.ExitStatus())
}
