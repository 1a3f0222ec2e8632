// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package messagequeue

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
)

// NewNamespace returns a new IPC namespace that has the queues of s. The namespace lives as long as the file is open.
func NewNamespace(ctx context.Context, s *State) (*os.File, error) {
	var ns *os.File
	err := onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWIPC); err != nil {
			return os.NewSyscallError("unshare", err)
		}
		var err error
		ns, err = os.Open("/proc/thread-self/ns/ipc")
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := restoreInto(ctx, ns, s); err != nil {
		ns.Close()
		return nil, err
	}
	return ns, nil
}

// Restore makes the queues of s in an IPC namespace, a file below /proc, in which there is no queue of such a name. The main of the
// program must call Run when its first argument is Arg.
func Restore(ctx context.Context, namespace string, s *State) error {
	ns, err := os.Open(namespace)
	if err != nil {
		return err
	}
	defer ns.Close()
	return restoreInto(ctx, ns, s)
}

// Arg is the hidden first argument by which a main calls Run.
const Arg = "message-queues"

// makerTime is the time that a maker of queues may take.
const makerTime = time.Minute

// makerNamespace is the maker's descriptor of the namespace.
const makerNamespace = 3

// restoreInto has a maker, a process of its own, make the queues.
//
// The maker's real user is the owner of each queue in turn, because the kernel counts a queue for the real user. The
// owner may therefore signal the maker, at any of its threads: stop it, or kill it. The daemon itself must never have such a thread.
func restoreInto(ctx context.Context, ns *os.File, s *State) error {
	state, err := json.Marshal(s)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, makerTime)
	defer cancel()
	var said strings.Builder
	maker := exec.CommandContext(ctx, "/proc/self/exe", Arg)
	maker.Args[0], maker.Dir, maker.Env = "singularity-queues", "/", []string{"GOMAXPROCS=2"}
	maker.Stdin, maker.Stderr = bytes.NewReader(state), &said
	maker.ExtraFiles = []*os.File{ns}
	maker.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	switch err := maker.Run(); {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("make message queues: %w", context.Cause(ctx))
	case said.Len() > 0:
		told := &localsock.ToldError{}
		if json.Unmarshal([]byte(said.String()), told) != nil { // a message of Go's
			return errors.New(strings.TrimSpace(said.String()))
		}
		return told
	default:
		return fmt.Errorf("make message queues: %w", err)
	}
}

// Run is the life of a maker of queues, a process that Restore or NewNamespace starts. It returns the exit code.
func Run([]string) int {
	if err := runMaker(); err != nil {
		_ = json.NewEncoder(os.Stderr).Encode(localsock.ToldError{Text: err.Error(), Errno: localsock.FindErrno(err)}) // the status says enough
		return 1
	}
	return 0
}

func runMaker() error {
	var s State
	if err := json.NewDecoder(os.Stdin).Decode(&s); err != nil {
		return fmt.Errorf("read the message queues: %w", err)
	}
	runtime.LockOSThread() // the namespace and the real user are a thread's
	if err := unix.Setns(makerNamespace, unix.CLONE_NEWIPC); err != nil {
		return os.NewSyscallError("setns", err)
	}
	return s.fillNamespace()
}

// fillNamespace makes the queues of s in the thread's namespace.
func (s *State) fillNamespace() error {
	for name, value := range s.Limits {
		if !slices.Contains(limitNames, name) {
			return fmt.Errorf("unknown limit %q of message queues", name)
		}
		path := filepath.Join(limitsFolder, name)
		if now, err := os.ReadFile(path); err == nil && string(now) == value+"\n" {
			continue
		}
		if err := os.WriteFile(path, []byte(value), 0); err != nil {
			return err
		}
	}
	if err := liftLimit(); err != nil {
		return err
	}
	for _, q := range s.Queues {
		if err := q.makeQueue(); err != nil {
			return fmt.Errorf("message queue /%s: %w", q.Name, err)
		}
	}
	return nil
}

// liftLimit removes this process's limit on bytes in queues. The owner had these queues before, within his own limit;
// but the kernel compares the owner's sum with the limit of the process that makes a queue. Without CAP_SYS_RESOURCE
// the limit stays.
func liftLimit() error {
	none := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	err := unix.Prlimit(0, unix.RLIMIT_MSGQUEUE, &none, nil)
	if errors.Is(err, unix.EPERM) {
		return nil
	}
	return os.NewSyscallError("prlimit", err)
}

var limitNames = []string{"msg_default", "msg_max", "msgsize_default", "msgsize_max", "queues_max"}

func (q *Queue) makeQueue() error {
	// The kernel counts a queue for the thread's real user. The effective user stays root, with root's rights.
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(q.UID), ^uintptr(0), ^uintptr(0)); errno != 0 {
		return os.NewSyscallError("setresuid", errno)
	}
	fd, err := createQueue(q.Name, attributes{MaxMessages: q.MaxMessages, MessageSize: q.MessageSize})
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Fchown(fd, int(q.UID), int(q.GID)); err != nil {
		return os.NewSyscallError("fchown", err)
	}
	if err := unix.Fchmod(fd, q.Mode); err != nil {
		return os.NewSyscallError("fchmod", err)
	}
	return sendAll(fd, q.Messages)
}

// Open opens a queue of an IPC namespace with the flags that fcntl showed of the open queue. The file's name is as.
func Open(namespace, name string, flags int, as string) (*os.File, error) {
	var f *os.File
	err := inNamespace(namespace, func() error {
		fd, err := openQueue(name, flags&(unix.O_ACCMODE|unix.O_NONBLOCK|unix.O_CLOEXEC))
		if err == nil {
			f = os.NewFile(uintptr(fd), as)
		}
		return err
	})
	return f, err
}
