// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package localsock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxPath is the longest path that fits into an address, with its NUL.
const maxPath = 107

// Listen makes a socket with that mode in place of a predecessor's. root alone may write to its
// folder. Before the socket has its mode, only root can connect, because connecting needs the right
// to write. The path stays when the listener is closed: a successor's socket may be there already.
func Listen(path string, mode os.FileMode) (*net.UnixListener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var l *net.UnixListener
	err := withAddress(path, func(a *net.UnixAddr) (err error) {
		l, err = net.ListenUnix("unixpacket", a)
		return err
	})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	if err := os.Chmod(path, mode); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// Dial connects to the socket at path.
func Dial(path string) (*net.UnixConn, error) {
	var c *net.UnixConn
	err := withAddress(path, func(a *net.UnixAddr) (err error) {
		c, err = net.DialUnix("unixpacket", nil, a)
		return err
	})
	return c, err
}

// withAddress calls f with an address of path, which may be longer than an address can be. The
// address is valid until f returns.
func withAddress(path string, f func(*net.UnixAddr) error) error {
	if len(path) <= maxPath {
		return f(&net.UnixAddr{Net: "unixpacket", Name: path})
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer d.Close()
	return f(&net.UnixAddr{Net: "unixpacket", Name: fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), filepath.Base(path))})
}

// TakeConn returns the connection of a socket's descriptor, which it takes over.
func TakeConn(fd int) (*net.UnixConn, error) {
	f := os.NewFile(uintptr(fd), "socket")
	defer f.Close()
	return ConnOf(f)
}

// ConnOf returns a connection of a socket, which stays the caller's.
func ConnOf(f *os.File) (*net.UnixConn, error) {
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		c.Close()
		return nil, errors.New("not a unix socket")
	}
	return u, nil
}

// WithDescriptor calls f with the descriptor of a file or connection, which stays open
// meanwhile. File.Fd is not used: it would make the file blocking, also for copies of the descriptor in
// other processes.
func WithDescriptor(c syscall.Conn, f func(fd int)) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Control(func(fd uintptr) { f(int(fd)) })
}

// TryWithDescriptor is WithDescriptor for a function that can fail. It returns the function's error.
func TryWithDescriptor(c syscall.Conn, f func(fd int) error) error {
	var inner error
	if err := WithDescriptor(c, func(fd int) { inner = f(fd) }); err != nil {
		return err
	}
	return inner
}

// PeerCredentials returns the credentials of the process at the other end as of its connect, or
// of the process that has made c, if c listens.
func PeerCredentials(c syscall.Conn) (*unix.Ucred, error) {
	var cred *unix.Ucred
	var inner error
	if err := WithDescriptor(c, func(fd int) { cred, inner = PeerCredentialsOf(fd) }); err != nil {
		return nil, fmt.Errorf("SO_PEERCRED: %w", err)
	}
	return cred, inner
}

// PeerCredentialsOf is PeerCredentials for a descriptor, which the caller keeps open.
func PeerCredentialsOf(fd int) (*unix.Ucred, error) {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return nil, fmt.Errorf("SO_PEERCRED: %w", err)
	}
	return cred, nil
}

// PeerPidfd returns a pidfd of the process that has connected to the socket fd and has the PID pid. It is close-on-exec, and
// the caller's to close.
//
// SO_PEERPIDFD, of Linux 6.5, means the process that connected, even if its PID is another process's by now. Before
// Linux 6.5, pidfd_open may find another process with the PID; then exact is false.
func PeerPidfd(fd, pid int) (pidfd int, exact bool, err error) {
	pidfd, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	if exact = !errors.Is(err, unix.ENOPROTOOPT); !exact {
		pidfd, err = unix.PidfdOpen(pid, 0)
	}
	if err != nil {
		return -1, exact, err
	}
	unix.CloseOnExec(pidfd)
	return pidfd, exact, nil
}

// InterruptAtEnd makes the end of ctx interrupt I/O with a deadline that setDeadline sets. An
// earlier deadline is cleared first. The caller calls stop when the I/O is done; after that
// setDeadline is not called any more.
func InterruptAtEnd(ctx context.Context, setDeadline func(time.Time) error) (stop func()) {
	_ = setDeadline(time.Time{})
	done := make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		_ = setDeadline(time.Unix(1, 0)) // an error means: closed already, so no I/O waits
		close(done)
	})
	return func() {
		if !cancel() {
			<-done
		}
	}
}
