// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package srun

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
)

// Caller is a process that receives the descriptors that a sing-srun has sent, and becomes the runner of that
// sing-srun's srun. The daemon never has the descriptors: to close a descriptor of a file system that does not answer
// (FUSE, NFS) may take forever, and SIGKILL does not end that wait. So only this process waits.
//
//	daemon                                        process
//	NewCaller ────────────────────────────────────► fork
//	Connection: the sing-srun's socket, sent by the door ───────────► recvmsg: the descriptors
//	Hear                              ◄── answer ── there are five, and the call is sealed
//	Start, Refuse or Report ── order ────────────► becomes the runner, or writes and ends
//	Close
//
// The methods of a Caller are called by a single goroutine.
type Caller struct {
	user    User
	pid     int
	ended   chan struct{} // closed when the process has been reaped
	orders  *os.File
	to      *gob.Encoder // of orders
	answers *os.File
	from    *gob.Decoder // of answers
	conn    *os.File
	given   bool // the process has got an order
}

// hearTime bounds the time in which a process receives a packet that has been sent already: the process starts, and
// makes a few system calls.
const hearTime = 20 * time.Second

// User is a user, as the kernel names a peer. No message of the peer changes these fields.
type User struct {
	UID, GID uint32
	Groups   []uint32
}

// NewCaller starts the process. mounts is the mount namespace of the capsule, which the caller keeps; nil: srun is to
// see the node's files. Messages to the sing-srun are written with the rights of that user.
func NewCaller(mounts *os.File, user User) (*Caller, error) {
	orderR, orderW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer orderR.Close()
	answerR, answerW, err := os.Pipe()
	if err != nil {
		orderW.Close()
		return nil, err
	}
	defer answerW.Close()
	c := &Caller{user: user, orders: orderW, to: gob.NewEncoder(orderW), answers: answerR, from: gob.NewDecoder(answerR), ended: make(chan struct{})}
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		c.conn = os.NewFile(uintptr(ends[0]), "connection")
		theirs := os.NewFile(uintptr(ends[1]), "connection")
		err = c.spawnProcess(orderR, answerW, theirs, mounts)
		theirs.Close()
	}
	if err != nil {
		orderW.Close()
		answerR.Close()
		if c.conn != nil {
			c.conn.Close()
		}
		return nil, fmt.Errorf("srun: start its runner: %w", err)
	}
	return c, nil
}

func (c *Caller) spawnProcess(orders, answers, conn, mounts *os.File) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	if mounts == nil {
		mounts = null
	}
	files := [...]*os.File{0: null, 1: null, 2: null, runnerOrders: orders, runnerAnswers: answers, runnerConn: conn, 6: null, 7: null, 8: null, runnerMounts: mounts, runnerCall: null}
	fds := make([]uintptr, len(files))
	for i, f := range files {
		fds[i] = f.Fd()
	}
	pidfd := -1
	c.pid, err = syscall.ForkExec("/proc/self/exe", []string{"singularity-srun", Arg}, &syscall.ProcAttr{
		Dir: "/", Env: []string{"GOMAXPROCS=2", "GOGC=20"}, Files: fds, Sys: &syscall.SysProcAttr{Setsid: true, PidFD: &pidfd},
	})
	if err != nil {
		return err
	}
	go reapQuietly(c.pid, pidfd, c.ended)
	return nil
}

// reapQuietly reaps a child when the child has ended, and holds no thread meanwhile: a child may
// never end.
func reapQuietly(pid, pidfd int, ended chan<- struct{}) {
	if pidfd >= 0 && unix.SetNonblock(pidfd, true) == nil {
		f := os.NewFile(uintptr(pidfd), "pidfd")
		_ = waitPidfd(context.Background(), f)
		f.Close()
	}
	reapChild(pid)
	close(ended)
}

// Connection is the socket to which the door sends the sing-srun's connection: a byte, and the connection as
// SCM_RIGHTS. The Caller closes the socket.
func (c *Caller) Connection() *os.File { return c.conn }

// Hear returns when the process has received the call. An error that wraps ErrCall is the
// sing-srun's fault.
func (c *Caller) Hear(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, hearTime)
	defer cancel()
	defer localsock.InterruptAtEnd(ctx, c.answers.SetReadDeadline)()
	var a answer
	if err := c.from.Decode(&a); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("its descriptors cannot be received: %w", ctx.Err())
		}
		return fmt.Errorf("srun: %w", err)
	}
	if a.Error != "" {
		return fmt.Errorf("%w: %s", ErrCall, a.Error)
	}
	return nil
}

// Refuse tells the sing-srun that there will be no srun, with the reason for the user.
func (c *Caller) Refuse(reason string) error {
	return c.sendLine(fmt.Sprintf("no %s\n", oneLine(reason)))
}

// Report tells the sing-srun how its srun has ended when the runner has ended, too: the sing-srun has asked again for
// an srun that has ended.
func (c *Caller) Report(key string, how syscall.WaitStatus) error {
	return c.sendLine(fmt.Sprintf("key %s\n%s\n", key, describeStatus(how)))
}

func (c *Caller) sendLine(line string) error {
	c.given = true
	return c.to.Encode(order{Tell: line, UID: c.user.UID, GID: c.user.GID, Groups: c.user.Groups})
}

// Close ends the process unless the process was given an order, and returns when the process has
// ended or ctx is done: a process that waits for a file system may never end.
func (c *Caller) Close(ctx context.Context) {
	c.conn.Close()
	c.orders.Close()
	c.answers.Close()
	if c.given {
		return
	}
	c.killProcess()
	select {
	case <-c.ended:
	case <-ctx.Done():
	}
}

// killProcess does nothing after the process has been reaped: its PID may then be another process's.
func (c *Caller) killProcess() {
	select {
	case <-c.ended:
	default:
		_ = unix.Kill(c.pid, unix.SIGKILL)
	}
}

// receiveCall is the process's side: the process receives the connection, and through the connection the descriptors,
// which it moves to placesOfFiles.
func receiveCall() error {
	conn, _, err := receiveFiles(runnerConn, 1, 0)
	if err != nil {
		return err
	}
	// The packet is known to be there, so this does not wait.
	got, n, err := receiveFiles(conn[0], maxReceived, unix.MSG_DONTWAIT)
	if err != nil {
		return err
	}
	_ = unix.Close(conn[0])
	if len(got) != len(placesOfFiles) || n == 0 {
		return fmt.Errorf("%d descriptors came with it, not %d", len(got), len(placesOfFiles))
	}
	for i, fd := range got {
		if err := unix.Dup3(fd, placesOfFiles[i], unix.O_CLOEXEC); err != nil {
			return err
		}
		_ = unix.Close(fd)
	}
	return checkCall(runnerCall)
}

// placesOfFiles are the runner's descriptors for the files that sing-srun sends, in the order of the packet.
var placesOfFiles = [...]int{runnerStdin, runnerStdout, runnerStderr, runnerStatus, runnerCall}

// maxReceived is the largest number of descriptors that are received with a packet; the kernel drops further ones.
const maxReceived = 16

func receiveFiles(socket, most, flags int) (fds []int, n int, err error) {
	oob := make([]byte, unix.CmsgSpace(most*4))
	b := make([]byte, 1)
	var oobn int
	for {
		n, oobn, _, _, err = unix.Recvmsg(socket, b, oob, flags|unix.MSG_CMSG_CLOEXEC)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, 0, err
	}
	parts, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil {
		return nil, 0, err
	}
	for _, p := range parts {
		if some, err := unix.ParseUnixRights(&p); err == nil {
			fds = append(fds, some...)
		}
	}
	if n == 0 || len(fds) == 0 {
		return fds, n, io.ErrUnexpectedEOF
	}
	return fds, n, nil
}
