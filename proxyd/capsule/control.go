// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package capsule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sort"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
)

// The maker and init exchange JSON, one packet each way over the SOCK_SEQPACKET socket "control",
// with a connection for each request. Fields are only ever added: init may be of an older build
// than its maker.
//
//	maker                                       init
//	─────                                       ────
//	request ──────────────────────────────────►
//	                                       ◄──  reply, descriptors for open, stdio and queues
//	op watch ─────────────────────────────────►
//	                                       ◄──  replies with events, until one side closes.
//	                                            Init closes the connection of a maker that
//	                                            does not read
const (
	opHello    = "hello"    // → ID
	opPrograms = "programs" // Name → Programs after Name in order, More
	opEnded    = "ended"    // Name → Ended after Name in order, More
	opForget   = "forget"   // Names
	opOpen     = "open"     // Name → pidfd of the program's steward
	opStdio    = "stdio"    // Name → descriptors 0, 1 and 2 of the waiting warden
	opRestored = "restored" // Name, PID, First
	opMark     = "mark"     // Name
	opUnmark   = "unmark"   // Name
	opRelease  = "release"  // Name, Status
	opSignal   = "signal"   // Name, Signal
	opInput    = "input"    // Name, All
	opLastPID  = "lastpid"  // → LastPID
	opSetPID   = "setpid"   // LastPID
	opClocks   = "clocks"   // → Clocks
	opWatch    = "watch"    // → Events
	opQueues   = "queues"   // PID → a file with the message queues of the process

	opContainer = "container" // Container → Container
)

// maxPacket fits into a socket's buffer, and holds pageSize and another item: a program with four
// paths of PATH_MAX, each byte of which JSON encodes as six.
const (
	maxPacket = 160 << 10
	pageSize  = 48 << 10
)

// countFitting returns how many of all fit into a packet, at least 1 if all is not empty.
func countFitting[T any](all []T) int {
	size := 0
	for i, item := range all {
		b, _ := json.Marshal(item) // fails again when the whole packet is encoded
		if size += len(b) + 1; size > pageSize {
			return i + 1
		}
	}
	return len(all)
}

// pageOf returns the programs after the program called last, as many as fit.
func pageOf(all []Program, last string) (fitting []Program, more bool) {
	i := sort.Search(len(all), func(i int) bool { return all[i].Name > last })
	all = all[i:]
	n := countFitting(all)
	return all[:n], n < len(all)
}

type request struct {
	Op      string
	Name    string             `json:",omitempty"`
	Names   []string           `json:",omitempty"`
	PID     int                `json:",omitempty"`
	First   int                `json:",omitempty"`
	Status  syscall.WaitStatus `json:",omitempty"`
	Signal  syscall.Signal     `json:",omitempty"`
	LastPID int                `json:",omitempty"`
	All     bool               `json:",omitempty"`

	Container *containerOrder `json:",omitempty"`
}

type reply struct {
	Error    string         `json:",omitempty"`
	Errno    syscall.Errno  `json:",omitempty"`
	ID       string         `json:",omitempty"`
	Programs []Program      `json:",omitempty"`
	Ended    []endedProgram `json:",omitempty"`
	More     bool           `json:",omitempty"`
	Events   []Event        `json:",omitempty"`
	LastPID  int            `json:",omitempty"`
	Clocks   *Clocks        `json:",omitempty"`

	Container *Container `json:",omitempty"`
}

// endedProgram is how a program ended.
type endedProgram struct {
	Name   string
	Status syscall.WaitStatus
}

// refusalReply makes an error into a reply.
func refusalReply(err error) reply {
	r := reply{Error: err.Error()}
	if !errors.As(err, &r.Errno) {
		r.Errno = syscall.EIO
	}
	return r
}

// remoteError is an error that init answered; errors.Is finds its errno.
type remoteError struct {
	text  string
	errno syscall.Errno
}

func (e *remoteError) Error() string { return e.text }
func (e *remoteError) Unwrap() error { return e.errno }

// callControl sends init a request. The caller closes the files.
func callControl(ctx context.Context, dir string, ask request) (reply, []*os.File, error) {
	c, err := localsock.Dial(filepath.Join(dir, controlName))
	if err != nil {
		return reply{}, nil, err
	}
	defer c.Close()
	defer localsock.InterruptAtEnd(ctx, c.SetDeadline)()
	got, files, err := exchangePackets(c, ask)
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return reply{}, nil, fmt.Errorf("%s: %w", ask.Op, err)
	}
	return got, files, nil
}

func exchangePackets(c *net.UnixConn, ask request) (reply, []*os.File, error) {
	b, err := json.Marshal(ask)
	if err != nil {
		return reply{}, nil, err
	}
	if _, err := c.Write(b); err != nil {
		return reply{}, nil, err
	}
	return receiveReply(c)
}

func receiveReply(c *net.UnixConn) (reply, []*os.File, error) {
	b := make([]byte, maxPacket)
	n, files, err := localsock.Receive(c, b, maxMessageFDs)
	if err != nil {
		return reply{}, nil, err
	}
	var got reply
	err = json.Unmarshal(b[:n], &got)
	if err == nil && got.Error != "" {
		err = &remoteError{got.Error, got.Errno}
	}
	if err != nil {
		localsock.CloseAll(files)
		return reply{}, nil, err
	}
	return got, files, nil
}

// duplicateFiles returns copies of files, or no files after an error.
func duplicateFiles(files []*os.File) ([]*os.File, error) {
	var copies []*os.File
	for _, fd := range localsock.Descriptors(files) {
		n, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			localsock.CloseAll(copies)
			return nil, err
		}
		copies = append(copies, os.NewFile(uintptr(n), "copy"))
	}
	return copies, nil
}

// growSendBuffer allows a watcher to lag by more than a thousand events, regardless of the node's
// default.
func growSendBuffer(c *net.UnixConn) error {
	var inner error
	err := localsock.WithDescriptor(c, func(fd int) {
		inner = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 512<<10)
	})
	return errors.Join(err, inner)
}
