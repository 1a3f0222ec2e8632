// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package srun

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// The control socket of a runner is SOCK_SEQPACKET, in the srun's folder. A connection
// is one request and one answer:
//
//	quiet | loud | signal NUMBER | drained ──►
//	                             ◄── ok | no REASON
type controlServer struct{ l *net.UnixListener }

const maxRequest = 64

// listenControl makes the socket. The folder's mode is the first lock, the socket's the
// second, the look at the peer the third.
func listenControl(dir string) (*controlServer, error) {
	path := filepath.Join(dir, controlName)
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	var l *net.UnixListener
	err := throughFolder(dir, func(addr *net.UnixAddr) error {
		var err error
		l, err = net.ListenUnix("unixpacket", addr)
		return err
	})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // its name was of a descriptor that is closed
	return &controlServer{l}, os.Chmod(path, 0o600)
}

// throughFolder calls f with an address of the socket that is short enough, however
// long dir is. It is valid until f returns.
func throughFolder(dir string, f func(*net.UnixAddr) error) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return f(&net.UnixAddr{Net: "unixpacket", Name: fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), controlName)})
}

// serve answers one request after the other, for the life of the process.
func (s *controlServer) serve(obey func(string) error) {
	for {
		c, err := s.l.AcceptUnix()
		if err != nil {
			return
		}
		answerOne(c, obey)
		c.Close()
	}
}

// requestTime bounds how long one asker may hold up the others.
const requestTime = 5 * time.Second

func answerOne(c *net.UnixConn, obey func(string) error) {
	if !isRoot(c) || c.SetDeadline(time.Now().Add(requestTime)) != nil {
		return
	}
	buf := make([]byte, maxRequest)
	n, err := c.Read(buf)
	if err != nil || n == 0 {
		return
	}
	reply := "ok"
	if err := obey(string(buf[:n])); err != nil {
		reply = "no " + oneLine(err.Error())
	}
	_, _ = c.Write([]byte(reply)) // the asker may be gone
}

func isRoot(c *net.UnixConn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	root := false
	err = raw.Control(func(fd uintptr) {
		cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		root = err == nil && cred.Uid == 0
	})
	return err == nil && root
}

// call makes one request.
func call(ctx context.Context, dir, request string) error {
	var c *net.UnixConn
	err := throughFolder(dir, func(addr *net.UnixAddr) error {
		var err error
		c, err = net.DialUnix("unixpacket", nil, addr)
		return err
	})
	if err != nil {
		return err
	}
	defer c.Close()
	defer interruptible(ctx, c.SetDeadline)()
	buf := make([]byte, 2*maxReason)
	if _, err = c.Write([]byte(request)); err == nil {
		var n int
		n, err = c.Read(buf)
		buf = buf[:n]
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return err
	case string(buf) != "ok":
		return errors.New(string(buf))
	}
	return nil
}

// interruptible makes what f sets a deadline for end with ctx. The returned function
// puts an end to that.
func interruptible(ctx context.Context, f func(time.Time) error) func() {
	_ = f(time.Time{})
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = f(time.Unix(1, 0)) // long ago
		close(done)
	})
	return func() {
		if !stop() {
			<-done
		}
	}
}
