// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package messagequeue

import (
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// attributes is struct mq_attr, in which every field is a long.
type attributes struct {
	Flags       int64
	MaxMessages int64
	MessageSize int64
	Messages    int64
	_           [4]int64
}

// openQueue opens a queue of the thread's namespace. The descriptor is close-on-exec with any flags.
func openQueue(name string, flags int) (int, error) { return callOpen(name, flags, nil) }

// createQueue makes a queue that only root can open yet.
func createQueue(name string, a attributes) (int, error) {
	return callOpen(name, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CREAT|unix.O_EXCL, &a)
}

func callOpen(name string, flags int, a *attributes) (int, error) {
	text, err := unix.BytePtrFromString(name)
	if err != nil {
		return -1, err
	}
	fd, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(text)), uintptr(flags), 0o600, uintptr(unsafe.Pointer(a)), 0, 0)
	if errno != 0 {
		return -1, os.NewSyscallError("mq_open", errno)
	}
	return int(fd), nil
}

func readAttributes(fd int) (a attributes, err error) {
	if _, _, errno := unix.Syscall(unix.SYS_MQ_GETSETATTR, uintptr(fd), 0, uintptr(unsafe.Pointer(&a))); errno != 0 {
		return a, os.NewSyscallError("mq_getattr", errno)
	}
	return a, nil
}

// receiveMessage takes a message; b must have room for the queue's largest message.
func receiveMessage(fd int, b []byte) (n int, priority uint32, err error) {
	got, _, errno := unix.Syscall6(unix.SYS_MQ_TIMEDRECEIVE, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), uintptr(unsafe.Pointer(&priority)), 0, 0)
	if errno != 0 {
		return 0, 0, errno
	}
	return int(got), priority, nil
}

func sendMessage(fd int, m Message) error {
	_, _, errno := unix.Syscall6(unix.SYS_MQ_TIMEDSEND, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(m.Data))), uintptr(len(m.Data)), uintptr(m.Priority), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// inNamespace calls f on a thread in an IPC namespace.
func inNamespace(path string, f func() error) error {
	ns, err := os.Open(path)
	if err != nil {
		return err
	}
	defer ns.Close()
	return onThread(func() error {
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWIPC); err != nil {
			return os.NewSyscallError("setns", err)
		}
		return f()
	})
}

// onThread calls f on a thread of its own, which ends after f: changes that f makes to the thread do not affect
// other goroutines.
func onThread(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		done <- f()
	}()
	return <-done
}
