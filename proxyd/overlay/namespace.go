// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// withinNamespace runs f on a thread in the network namespace ns. Sockets and /proc/sys/net belong to the
// namespace of the thread that opens them, so f must not start goroutines that do so.
func withinNamespace(ns *os.File, f func() error) error {
	done := make(chan error, 1)
	go func() {
		done <- func() error {
			runtime.LockOSThread()
			home, err := ownNetns()
			if err != nil {
				runtime.UnlockOSThread()
				return err
			}
			defer home.Close()
			if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
				runtime.UnlockOSThread()
				return fmt.Errorf("join network namespace: %w", err)
			}
			err = f()
			// A thread that cannot return to its namespace stays locked, and ends with this
			// goroutine.
			if unix.Setns(int(home.Fd()), unix.CLONE_NEWNET) == nil {
				runtime.UnlockOSThread()
			}
			return err
		}()
	}()
	return <-done
}

// withinNetworkNamespace runs f on a thread in the network namespace of a capsule's process.
func withinNetworkNamespace(pid int, f func() error) error {
	node, err := ownNetns()
	if err != nil {
		return err
	}
	defer node.Close()
	ns, err := capsuleNetns(pid, node)
	if err != nil {
		return err
	}
	defer ns.Close()
	return withinNamespace(ns, f)
}

// ownNetns opens the caller's network namespace. The process's first thread, to which /proc/self
// refers, may be in another namespace.
func ownNetns() (*os.File, error) { return os.Open("/proc/thread-self/ns/net") }

// capsuleNetns opens the network namespace of a process. capsuleNetns refuses the node's own
// namespace: the process may have ended and its PID may be in use by another.
func capsuleNetns(pid int, node *os.File) (*os.File, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return nil, err
	}
	theirs, err := f.Stat()
	if err == nil {
		var ours fs.FileInfo
		if ours, err = node.Stat(); err == nil && os.SameFile(theirs, ours) {
			err = fmt.Errorf("process %d is in the node's network namespace", pid)
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// setSysctl sets a variable of an interface, or of "all", in the thread's namespace.
func setSysctl(family, link, key, value string) error {
	path := filepath.Join("/proc/sys/net", family, "conf", link, key)
	err := os.WriteFile(path, []byte(value), 0)
	if family == "ipv6" && errors.Is(err, fs.ErrNotExist) {
		return nil // a kernel without IPv6
	}
	return err
}

// isForwarding tells whether the node forwards IPv4 packets from an interface, or with "all" from each.
func isForwarding(link string) (bool, error) {
	b, err := os.ReadFile(filepath.Join("/proc/sys/net/ipv4/conf", link, "forwarding"))
	return err == nil && len(b) > 0 && b[0] != '0', err
}

// listRetrying lists kernel objects, and repeats the list if it changed during the reading: the
// kernel reports that.
func listRetrying[T any](list func() ([]T, error)) ([]T, error) {
	for range 50 {
		got, err := list()
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			return got, err
		}
	}
	return nil, netlink.ErrDumpInterrupted
}
