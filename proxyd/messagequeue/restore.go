// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package messagequeue

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// NewNamespace returns a new IPC namespace that has the queues of s. The namespace lives as long as the file is open.
func NewNamespace(s *State) (*os.File, error) {
	var ns *os.File
	err := onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWIPC); err != nil {
			return os.NewSyscallError("unshare", err)
		}
		var err error
		if ns, err = os.Open("/proc/thread-self/ns/ipc"); err != nil {
			return err
		}
		if err = s.fillNamespace(); err != nil {
			ns.Close()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return ns, nil
}

// Restore makes the queues of s in an IPC namespace, a file below /proc, in which there is no queue of such a name.
func Restore(namespace string, s *State) error { return inNamespace(namespace, s.fillNamespace) }

// limitMu is held while this process has its own limit raised.
var limitMu sync.Mutex

// fillNamespace makes the queues of s in the thread's namespace. The thread ends after this call.
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
	end, err := liftLimit()
	if err != nil {
		return err
	}
	for _, q := range s.Queues {
		if err := q.makeQueue(); err != nil {
			return errors.Join(fmt.Errorf("message queue /%s: %w", q.Name, err), end())
		}
	}
	return end()
}

// liftLimit takes away this process's limit of the bytes in queues, until end is called. The owner had the queues already, and they
// count for that user; but the kernel compares the owner's sum with the limit of the process that makes a queue.
// Without CAP_SYS_RESOURCE the limit stays.
func liftLimit() (end func() error, err error) {
	limitMu.Lock()
	var before unix.Rlimit
	none := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	err = unix.Prlimit(0, unix.RLIMIT_MSGQUEUE, &none, &before)
	if errors.Is(err, unix.EPERM) {
		limitMu.Unlock()
		return func() error { return nil }, nil
	}
	if err != nil {
		limitMu.Unlock()
		return nil, os.NewSyscallError("prlimit", err)
	}
	return func() error {
		defer limitMu.Unlock()
		return os.NewSyscallError("prlimit", unix.Prlimit(0, unix.RLIMIT_MSGQUEUE, &before, nil))
	}, nil
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

// Open opens a queue of an IPC namespace with the flags that fcntl showed of the open queue. The file is called as.
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
