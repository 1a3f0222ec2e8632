// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package localsock

import (
	"errors"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// ErrTooMuch is the error of Receive for a packet that was longer than its buffer, or came with
// more descriptors than were accepted.
var ErrTooMuch = errors.New("too much in one packet")

// Receive reads a packet into b, with at most maxFiles descriptors, which are close-on-exec
// and the caller's to close. On an error Receive has closed them. The end of the connection
// is io.EOF, and so is an empty packet, unless another one is there already.
func Receive(c *net.UnixConn, b []byte, maxFiles int) (int, []*os.File, error) {
	oob := make([]byte, unix.CmsgSpace(maxFiles*4))
	n, oobn, flags, _, err := c.ReadMsgUnix(b, oob)
	if n == 0 && oobn == 0 && (err == nil || errors.Is(err, io.EOF)) {
		n, oobn, flags, err = receiveLast(c, b, oob)
	}
	files := parseFiles(oob[:oobn]) // first of all: net takes an empty packet with descriptors for an error
	switch {
	case err != nil:
	case n == 0:
		err = io.EOF
	case flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0:
		err = ErrTooMuch // the kernel has closed the descriptors that did not fit
	default:
		return n, files, nil
	}
	CloseAll(files)
	return 0, nil, err
}

// receiveLast looks once more after the kernel has told the end of a connection, and does not wait. Linux looks for a packet,
// and then whether the other end has closed: a packet that is sent in between, before the close, is still there.
func receiveLast(c *net.UnixConn, b, oob []byte) (n, oobn, flags int, err error) {
	err = TryWithDescriptor(c, func(fd int) (err error) {
		n, oobn, flags, _, err = unix.Recvmsg(fd, b, oob, unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
		return err
	})
	if err != nil { // also EAGAIN: the packet was empty, and the connection has not ended
		return 0, 0, 0, io.EOF
	}
	return n, oobn, flags, nil
}

// parseFiles takes every descriptor out of control messages.
func parseFiles(oob []byte) []*os.File {
	var files []*os.File
	for len(oob) >= unix.CmsgLen(0) {
		// One message at a time: ParseSocketControlMessage may fail as a whole, and descriptors
		// in its messages would stay open.
		h, data, rest, err := unix.ParseOneSocketControlMessage(oob)
		if err != nil {
			break
		}
		oob = rest
		fds, err := unix.ParseUnixRights(&unix.SocketControlMessage{Header: h, Data: data})
		if err != nil {
			continue // credentials, for example
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "received"))
		}
	}
	return files
}

// CloseAll closes files that were only read, or that are another process's by now.
func CloseAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// Descriptors returns the descriptors of files. The caller keeps the files open while using
// the numbers.
func Descriptors(files []*os.File) []int {
	var fds []int
	for _, f := range files {
		_ = WithDescriptor(f, func(fd int) { fds = append(fds, fd) }) // an error: f is closed
	}
	return fds
}

// SendNow sends a packet with descriptors if the peer has space for it, and never waits.
func SendNow(c *net.UnixConn, b []byte, fds ...int) error {
	var inner error
	err := WithDescriptor(c, func(fd int) {
		_, inner = unix.SendmsgN(fd, b, encodeRights(fds), nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	})
	return errors.Join(err, inner)
}

// Send sends a packet with descriptors; the write deadline of c applies.
func Send(c *net.UnixConn, b []byte, fds ...int) error {
	_, _, err := c.WriteMsgUnix(b, encodeRights(fds), nil)
	return err
}

func encodeRights(fds []int) []byte {
	if len(fds) == 0 {
		return nil
	}
	return unix.UnixRights(fds...)
}
