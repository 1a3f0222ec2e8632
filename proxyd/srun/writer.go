// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package srun

import (
	"encoding/gob"
	"errors"
	"log"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The kernel often checks rights at the moment of a write: a write to a file of /proc that the user opened may do for
// root what it does not do for the user, a datagram of root's is a message of root's, and quotas do not bind root. So
// root writes into no descriptor that came from a user. Instead a process writes that has become the user and cannot go
// back, with the user's limit of file sizes, in the job's cgroup:
//
//	runner, root                            writer, the user
//	order ────────────────────────────────► joins the cgroup, becomes the user
//	words: for standard error, or status ─► writes
//	                         ◄── a byte ──  written, or the reader has gone
//
// The user can kill the writer or stop it. Another writer takes the place of one that was killed; a writer that was
// stopped has the same effect as a reader that does not read.

// writeArg follows Arg in the writer.
const writeArg = "write"

// Descriptors of a writer, after 0 and 1, which are /dev/null, and 2, the folder's log.
const (
	writerOrders = 3
	writerStatus = 4
	writerStderr = 5
)

// words are a text to be written.
type words struct {
	Status bool // to the status pipe, else to standard error
	Text   []byte
}

// acknowledgementByte is the writer's answer when it has written words.
func acknowledgementByte(status bool) byte {
	if status {
		return 's'
	}
	return 'e'
}

// userWriter writes into the descriptors that came from the user. A userWriter is safe for
// concurrent use, by one goroutine for each of the two descriptors.
type userWriter struct {
	user order // only the fields that make a process the user's
	mu   sync.Mutex
	now  *writer // may have ended
}

func newUserWriter(o *order) *userWriter {
	user := order{UID: o.UID, GID: o.GID, Groups: o.Groups, Cgroups: o.Cgroups, OOM: o.OOM, OwnOOM: o.OwnOOM}
	for _, l := range o.Limits {
		if l.Resource == unix.RLIMIT_FSIZE {
			user.Limits = []Limit{l}
		}
	}
	return &userWriter{user: user}
}

// statusTime bounds the wait until a line has been written to the status pipe. The writer does not wait for a reader
// there, so the time runs out only if the user has stopped the writer.
const statusTime = 10 * time.Second

// write returns when a writer has written w, has ended twice, or has been stopped while it wrote to
// the status pipe. Words of a writer that was killed may be written twice.
func (u *userWriter) write(w words) {
	for range 2 {
		p, err := u.currentWriter()
		if err != nil {
			log.Print("start a process of the user that writes: ", err)
			return
		}
		if p.write(w) {
			return
		}
	}
	log.Print("words for the user are lost: the process that was to write them was killed twice")
}

// currentWriter returns the writer, and starts one if there is none.
func (u *userWriter) currentWriter() (*writer, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.now != nil {
		select {
		case <-u.now.ended:
		default:
			return u.now, nil
		}
	}
	p, err := startWriter(&u.user)
	u.now = p
	return p, err
}

// writer is a process of the user that writes words.
type writer struct {
	conn    *os.File
	mu      sync.Mutex // held while to is used
	to      *gob.Encoder
	written map[byte]chan struct{} // by acknowledgement; with room for one
	ended   chan struct{}
}

func startWriter(user *order) (*writer, error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(ends[1])
	if err := unix.SetNonblock(ends[0], true); err != nil {
		unix.Close(ends[0])
		return nil, err
	}
	conn := os.NewFile(uintptr(ends[0]), "writer")
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		conn.Close()
		return nil, err
	}
	defer null.Close()
	pid, err := syscall.ForkExec("/proc/self/exe", []string{"singularity-srun", Arg, writeArg}, &syscall.ProcAttr{
		Dir: "/", Env: []string{"GOMAXPROCS=2", "GOGC=20"},
		Files: []uintptr{null.Fd(), null.Fd(), 2, uintptr(ends[1]), runnerStatus, runnerStderr},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		conn.Close()
		return nil, err
	}
	p := &writer{conn: conn, to: gob.NewEncoder(conn), ended: make(chan struct{}), written: map[byte]chan struct{}{
		acknowledgementByte(true): make(chan struct{}, 1), acknowledgementByte(false): make(chan struct{}, 1),
	}}
	go p.readAcknowledgements(pid)
	return p, p.to.Encode(user)
}

// readAcknowledgements notes which words the writer has written, until the writer ends. The writer is the user's: its
// bytes are trusted for no more than that.
func (p *writer) readAcknowledgements(pid int) {
	b := make([]byte, 1)
	for {
		if _, err := p.conn.Read(b); err != nil {
			break
		}
		select {
		case p.written[b[0]] <- struct{}{}:
		default: // no write waits for this
		}
	}
	close(p.ended)
	_ = unix.Kill(pid, unix.SIGKILL) // the writer may have been given up
	reapChild(pid)
	p.conn.Close()
}

// write returns false if the writer has ended before w was written.
func (p *writer) write(w words) bool {
	written := p.written[acknowledgementByte(w.Status)]
	select {
	case <-written: // late, of a write that has given up
	default:
	}
	if !p.sendWords(w) {
		return false
	}
	var late <-chan time.Time
	if w.Status {
		late = time.After(statusTime)
	}
	select {
	case <-written:
	case <-late:
	case <-p.ended:
		return false
	}
	return true
}

// sendWords gives the writer words. A writer that has been stopped takes words until the socket is full; then it is
// given up, for the last words in the socket may be incomplete.
func (p *writer) sendWords(w words) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conn.SetWriteDeadline(time.Now().Add(statusTime)) == nil && p.to.Encode(w) == nil {
		return true
	}
	p.conn.Close() // readAcknowledgements ends the process
	return false
}

// runWriter is the life of a writer. It writes the words for the status pipe that it has been given even after the
// runner's end.
func runWriter() int {
	// The kernel and Slurm send signals to the processes in the job's cgroup, and the kernel sends SIGXFSZ.
	signal.Ignore()
	conn := os.NewFile(writerOrders, "orders")
	from := gob.NewDecoder(conn)
	e := entrance{}
	err := from.Decode(&e.o)
	for _, step := range []func() error{e.joinCgroups, e.setOOM, e.setLimits, e.o.becomeUserForGood} {
		if err == nil {
			err = step()
		}
	}
	if err != nil {
		log.Print("become the user, to write: ", err)
		return 1
	}
	status, stderr := make(chan []byte, 1), make(chan []byte, 1)
	done := make(chan struct{})
	acknowledge := func(of bool) { _, _ = conn.Write([]byte{acknowledgementByte(of)}) }
	go func() {
		defer close(done)
		for b := range status {
			_, _ = unix.Write(writerStatus, b) // a reader that is gone, or does not read, loses the line
			acknowledge(true)
		}
	}()
	go func() {
		for b := range stderr {
			writeAll(writerStderr, b)
			acknowledge(false)
		}
	}()
	for {
		var w words
		if from.Decode(&w) != nil {
			break
		}
		if w.Status {
			status <- w.Text
		} else {
			stderr <- w.Text
		}
	}
	close(status)
	<-done
	return 0
}

// writeAll writes all of b, however slow the reader is.
func writeAll(fd int, b []byte) {
	for len(b) > 0 {
		n, err := unix.Write(fd, b)
		switch {
		case n > 0:
			b = b[n:]
		case errors.Is(err, unix.EAGAIN):
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, -1)
		case !errors.Is(err, unix.EINTR):
			return // the reader has gone; srun would have lost these bytes too
		}
	}
}

// becomeUserForGood changes all threads of this process. From root to another user the kernel takes
// all capabilities away, and lets no process of the user trace this one.
func (o *order) becomeUserForGood() error {
	groups := make([]int, len(o.Groups))
	for i, g := range o.Groups {
		groups[i] = int(g)
	}
	if err := syscall.Setgroups(groups); err != nil {
		return os.NewSyscallError("setgroups", err)
	}
	if err := syscall.Setresgid(int(o.GID), int(o.GID), int(o.GID)); err != nil {
		return os.NewSyscallError("setresgid", err)
	}
	return os.NewSyscallError("setresuid", syscall.Setresuid(int(o.UID), int(o.UID), int(o.UID)))
}

// writeStatus writes the text of an order to the status pipe. This process is the user's from then on.
func (o *order) writeStatus() error {
	if err := o.becomeUserForGood(); err != nil {
		return err
	}
	_, _ = unix.Write(runnerStatus, []byte(o.Tell)) // the reader may be gone
	return nil
}
