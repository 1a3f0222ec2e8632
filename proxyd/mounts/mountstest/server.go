// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package mountstest has a user's server of a file system, for tests of code that must not wait for such a server.
package mountstest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// Of the kernel's <linux/fuse.h>.
const (
	fuseLookup  = 1
	fuseForget  = 2
	fuseGetattr = 3
	fuseSetattr = 4
	fuseOpen    = 14
	fuseWrite   = 16
	fuseStatfs  = 17
	fuseRelease = 18
	fuseFlush   = 25
	fuseInit    = 26

	fuseWritebackCache = 1 << 16
)

// Server has a file system with a single file.
type Server struct {
	Folder string // the mount point
	Path   string // of the file
	silent atomic.Bool
	mute   atomic.Bool
	closed atomic.Int32
	hangs  chan struct{} // nil: writes and flushes are answered
}

// Closed returns how often a process has closed the file, for which the kernel waits for the server's answer.
func (s *Server) Closed() int { return int(s.closed.Load()) }

// Silence has the server answer no question about the file or the file system any more. Requests that the kernel then
// waits for end with the test.
func (s *Server) Silence() { s.silent.Store(true) }

// SilenceAll has the server also answer no lookup of a name any more, so that no file can be made.
func (s *Server) SilenceAll() {
	s.Silence()
	s.mute.Store(true)
}

// Serve mounts a file system in the name of a user, for all users, until the end of the test. A test that may not mount
// is skipped.
func Serve(t testing.TB, user int) *Server {
	t.Helper()
	return mountServed(t, user, nil)
}

// ServeHanging mounts a file system of root's with a file that hangs: no write to the file is answered, and no flush
// for root, so that root waits when it closes the file. The channel has a value for each request that is left without
// an answer. Processes that wait get an error at the end of the test.
func ServeHanging(t testing.TB) (*Server, <-chan struct{}) {
	t.Helper()
	hangs := make(chan struct{}, 100)
	return mountServed(t, 0, hangs), hangs
}

func mountServed(t testing.TB, user int, hangs chan struct{}) *Server {
	t.Helper()
	parent, err := os.MkdirTemp("", "served")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(parent, "mounted")
	t.Cleanup(func() {
		_ = os.Remove(dir)
		_ = os.Remove(parent)
	})
	if err := errors.Join(os.Chmod(parent, 0o755), os.Mkdir(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	dev, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Skip("SKIP: needs /dev/fuse: ", err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=%[2]d,group_id=%[2]d,allow_other", dev, user)
	if err := unix.Mount("served", dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		unix.Close(dev)
		t.Skip("SKIP: cannot mount FUSE: ", err)
	}
	s := &Server{Folder: dir, Path: filepath.Join(dir, "file"), hangs: hangs}
	var stop [2]int
	if err := unix.Pipe2(stop[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		s.serveRequests(dev, stop[0])
	}()
	t.Cleanup(func() {
		_ = unix.Unmount(dir, unix.MNT_DETACH) // a test may have done so
		unix.Close(stop[1])
		<-over
		unix.Close(dev) // processes that wait get an error
		unix.Close(stop[0])
	})
	return s
}

// Open opens the file until the end of the test. Go's own files would ask the server from within the scheduler, which
// may not let the server's goroutine run.
func (s *Server) Open(t testing.TB) (fd int) {
	t.Helper()
	fd, err := unix.Open(s.Path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// serveRequests answers requests until the other end of stop is closed.
func (s *Server) serveRequests(dev, stop int) {
	request := make([]byte, 1<<20)
	for {
		fds := []unix.PollFd{{Fd: int32(dev), Events: unix.POLLIN}, {Fd: int32(stop)}}
		if _, err := unix.Poll(fds, -1); err != nil {
			continue
		}
		if fds[1].Revents != 0 || fds[0].Revents&unix.POLLERR != 0 {
			return
		}
		n, err := unix.Read(dev, request)
		if err != nil || n < 40 {
			continue
		}
		if out, errno, answered := s.answerRequest(request[:n]); answered {
			b := make([]byte, 16, 16+len(out))
			binary.LittleEndian.PutUint32(b, uint32(16+len(out)))
			binary.LittleEndian.PutUint32(b[4:], uint32(-int32(errno)))
			copy(b[8:], request[8:16])
			_, _ = unix.Write(dev, append(b, out...))
		}
	}
}

func encodeAttributes(node uint64, mode uint32) []byte {
	b := make([]byte, 88)
	binary.LittleEndian.PutUint64(b, node)
	binary.LittleEndian.PutUint32(b[60:], mode)
	binary.LittleEndian.PutUint32(b[64:], 1)
	binary.LittleEndian.PutUint32(b[80:], 4096)
	return b
}

// encodeInit returns the answer to the kernel's first request.
func (s *Server) encodeInit() []byte {
	out := make([]byte, 64)
	binary.LittleEndian.PutUint32(out, 7)
	binary.LittleEndian.PutUint32(out[4:], 31)
	if s.hangs != nil {
		binary.LittleEndian.PutUint32(out[12:], fuseWritebackCache)
	}
	binary.LittleEndian.PutUint32(out[20:], 128<<10)
	binary.LittleEndian.PutUint32(out[24:], 1)
	return out
}

// answerRequest answers a request. Attributes are not valid for any time, so each stat asks the server; but the kernel
// keeps the attributes of a file that hangs, with the data written to the file, until the flush.
func (s *Server) answerRequest(request []byte) (out []byte, errno unix.Errno, answered bool) {
	call := binary.LittleEndian.Uint32(request[4:])
	valid := uint64(0) // seconds
	if s.hangs != nil {
		valid = 1000
	}
	switch call {
	case fuseInit:
		out = s.encodeInit()
	case fuseLookup:
		if s.mute.Load() {
			return nil, 0, false
		}
		out = make([]byte, 40, 128)
		binary.LittleEndian.PutUint64(out, 2)
		binary.LittleEndian.PutUint64(out[16:], valid)
		binary.LittleEndian.PutUint64(out[24:], valid)
		out = append(out, encodeAttributes(2, unix.S_IFREG|0o666)...)
	case fuseGetattr, fuseSetattr:
		if s.silent.Load() {
			return nil, 0, false
		}
		if call == fuseSetattr && s.hangs == nil {
			errno = unix.ENOSYS
			break
		}
		mode := uint32(unix.S_IFREG | 0o666)
		node := binary.LittleEndian.Uint64(request[16:])
		if node == 1 {
			mode = unix.S_IFDIR | 0o755
		}
		out = append(make([]byte, 16), encodeAttributes(node, mode)...)
		binary.LittleEndian.PutUint64(out, valid)
	case fuseStatfs:
		if s.silent.Load() {
			return nil, 0, false
		}
		out = make([]byte, 80)
	case fuseOpen:
		out = make([]byte, 16)
	case fuseForget:
		return nil, 0, false
	case fuseFlush:
		if user := binary.LittleEndian.Uint32(request[24:]); s.hangs != nil && user == 0 {
			s.hangs <- struct{}{}
			return nil, 0, false
		}
		s.closed.Add(1)
	case fuseWrite:
		if s.hangs != nil {
			s.hangs <- struct{}{}
			return nil, 0, false
		}
		errno = unix.ENOSYS
	case fuseRelease:
	default:
		errno = unix.ENOSYS
	}
	return out, errno, true
}
