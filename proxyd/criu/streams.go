// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// stream is an image on its way.
type stream struct {
	name    string
	run     *criuRun
	pipe    chan int    // the pipe's descriptor from criu; closed when it will not come
	refused atomic.Bool // criu was told that there is no such image
}

// pipeSizes are tried in this order for large images: the more bytes fit, the less do criu and this process wait for
// each other on a busy node. /proc/sys/fs/pipe-max-size allows the second by default, CAP_SYS_RESOURCE the first.
var pipeSizes = []int{8 << 20, 1 << 20}

const bufferSize = 256 << 10

var buffers = sync.Pool{New: func() any { b := make([]byte, bufferSize); return &b }}

// beginStream starts the stream of an image that criu has named.
func (s *criuRun) beginStream(name string) *stream {
	st := &stream{name: name, run: s, pipe: make(chan int, 1)}
	s.streams.Go(func() {
		if err := s.carry(st); err != nil {
			st.cancelRun(err)
		}
		select { // a descriptor that came too late
		case fd, ok := <-st.pipe:
			if ok {
				unix.Close(fd)
			}
		default:
		}
	})
	return st
}

// cancelRun breaks the session off because this stream has failed.
func (st *stream) cancelRun(err error) {
	st.run.cancelRun(fmt.Errorf("image %s: %w", st.name, err))
}

// usePipe waits for the pipe, calls use with the pipe, and closes the pipe. The error of use is recorded before the
// pipe is closed: criu fails because of a closed pipe, and criu's exit status would be taken for the reason.
func (st *stream) usePipe(use func(pipe *os.File) error) error {
	pipe, err := st.waitForPipe()
	if err != nil {
		return err
	}
	defer st.run.dropFile(pipe)
	if err = use(pipe); err != nil {
		st.cancelRun(err)
	}
	return err
}

// errNoPipe is the error of a stream if criu asks for it and ends before it sends the pipe.
var errNoPipe = errors.New("criu sent no pipe")

// waitForPipe waits for the pipe. Only usePipe calls it, and gives the file back to session.dropFile.
func (st *stream) waitForPipe() (*os.File, error) {
	select {
	case fd, ok := <-st.pipe:
		if !ok {
			return nil, errNoPipe
		}
		if strings.HasPrefix(st.name, "pages-") || strings.HasPrefix(st.name, "ghost-file") {
			for _, size := range pipeSizes { // slower without
				if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, size); err == nil {
					break
				}
			}
		}
		return st.run.adoptDescriptor(fd, st.name)
	case <-st.run.broken:
		return nil, os.ErrClosed
	}
}

// waitForStreams waits until all streams have ended, or s is broken.
func (s *criuRun) waitForStreams() error {
	done := make(chan struct{})
	go func() {
		s.streams.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-s.broken:
	}
	return s.firstFailure()
}

// regularDescriptor returns the descriptor of a regular file, to splice with.
func regularDescriptor(v any) (syscall.RawConn, bool) {
	f, ok := v.(*os.File)
	if !ok {
		return nil, false
	}
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return nil, false
	}
	raw, err := f.SyscallConn()
	return raw, err == nil
}

// drainPipe copies a pipe to its end. Into a file the kernel moves the pages.
func drainPipe(to io.Writer, from *os.File) (int64, error) {
	if raw, ok := regularDescriptor(to); ok {
		return spliceAll(from.SyscallConn, true, raw)
	}
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	return io.CopyBuffer(onlyWriter{to}, onlyReader{from}, *buf)
}

// fillPipe moves all of from into the pipe of the image name. A file's pages are the pipe's
// without a copy.
func fillPipe(to *os.File, from io.Reader, name string) (int64, error) {
	if raw, ok := regularDescriptor(from); ok {
		return spliceAll(to.SyscallConn, false, raw)
	}
	if canLendImage(name) {
		return lendPages(to, from)
	}
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	return io.CopyBuffer(onlyWriter{to}, onlyReader{from}, *buf)
}

// They hide ReadFrom and WriteTo, which io.CopyBuffer would use in place of the pool's buffer.
type (
	onlyReader struct{ io.Reader }
	onlyWriter struct{ io.Writer }
)

// spliceAll moves everything from a pipe to a file, or from a file to a pipe.
func spliceAll(pipe func() (syscall.RawConn, error), fromPipe bool, file syscall.RawConn) (int64, error) {
	p, err := pipe()
	if err != nil {
		return 0, err
	}
	var total int64
	for {
		var n int64
		var moveErr error
		err := file.Control(func(f uintptr) {
			move := func(p uintptr) bool {
				from, to := int(f), int(p)
				if fromPipe {
					from, to = to, from
				}
				n, moveErr = unix.Splice(from, nil, to, nil, pipeSizes[0], unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
				return !errors.Is(moveErr, unix.EAGAIN)
			}
			wait := p.Write
			if fromPipe {
				wait = p.Read
			}
			if err := wait(move); err != nil {
				moveErr = err
			}
		})
		if err = errors.Join(err, moveErr); errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n == 0 {
			return total, err
		}
		total += n
	}
}
