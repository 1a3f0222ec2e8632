// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/strangers"
)

const (
	kept          = 64 << 10 // bytes that a new client is shown
	maxClients    = 16
	maxStrangers  = 64  // connections that have not shown the token
	clientBacklog = 256 // pieces of output that a client may be late
	tokenTime     = 10 * time.Second
)

// Serve runs a command on a terminal of its own until the command ends, and lets the user attach to
// the terminal. The job's record exists while the command runs. Serve returns the command's exit code,
// 128 and the signal's number after a signal.
func Serve(job string, command []string) (int, error) {
	path, err := exec.LookPath(command[0])
	if err != nil {
		return 127, err
	}
	l, err := listenInCapsule()
	if err != nil {
		return 1, err
	}
	defer l.Close()
	secret := make([]byte, tokenSize/2)
	_, _ = rand.Read(secret) // never fails
	token := hex.EncodeToString(secret)
	master, slave, err := openTerminal()
	if err != nil {
		return 1, fmt.Errorf("terminal: %w", err)
	}
	defer master.Close()
	// Not package os, which waits for processes by pidfds: CRIU dumps pidfds since 4.1 only.
	pid, err := syscall.ForkExec(path, command, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{slave.Fd(), slave.Fd(), slave.Fd()},
		Sys: &syscall.SysProcAttr{Setsid: true, Setctty: true},
	})
	slave.Close()
	if err != nil {
		return 126, fmt.Errorf("%s: %w", path, err)
	}
	if err := (Record{Address: l.Addr().String(), Token: token}).Save(job); err != nil {
		_ = syscall.Kill(pid, syscall.SIGHUP)
		return 1, fmt.Errorf("the session's record: %w", err)
	}
	defer removeFile(job, recordEnding) //nolint:errcheck // list removes a record that stays
	// The note stays: Slurm may requeue the job, and the session waits then.
	s := &server{master: master, token: token, clients: map[*client]bool{}, room: make(chan struct{}, maxClients), strangers: strangers.New(maxStrangers)}
	go s.acceptAll(l)
	go passSignals(pid)
	shown := make(chan struct{})
	go func() {
		s.showOutput()
		close(shown)
	}()
	status, err := awaitProcess(pid)
	// A process that the command left behind may keep the terminal open.
	select {
	case <-shown:
	case <-time.After(time.Second):
	}
	s.closeClients()
	return status, err
}

// listenInCapsule listens at the address by which this node reaches the job, which the job keeps.
func listenInCapsule() (net.Listener, error) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			var l net.ListenConfig
			l.SetMultipathTCP(false) // CRIU dumps no MPTCP sockets
			return l.Listen(context.Background(), "tcp4", net.JoinHostPort(n.IP.String(), "0"))
		}
	}
	return nil, errors.New("the job has no address")
}

// openTerminal makes a terminal and returns both ends.
func openTerminal() (master, slave *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	master = os.NewFile(uintptr(fd), "terminal")
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		return nil, nil, errors.Join(err, master.Close())
	}
	return master, slave, nil
}

// passSignals passes on the signals that Slurm sends the script when the job is to end.
func passSignals(pid int) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2)
	for s := range signals {
		if sig, ok := s.(syscall.Signal); ok {
			if sig == syscall.SIGTERM {
				sig = syscall.SIGHUP // interactive shells ignore SIGTERM
			}
			_ = syscall.Kill(pid, sig) // the process may have ended
		}
	}
}

func awaitProcess(pid int) (int, error) {
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(pid, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 1, err
		case status.Signaled():
			return 128 + int(status.Signal()), nil
		default:
			return status.ExitStatus(), nil
		}
	}
}

// server has the terminal and the attached clients.
type server struct {
	master *os.File
	token  string
	room   chan struct{} // a place for each client

	strangers *strangers.List // connections that have not shown the token

	mu      sync.Mutex
	shown   []byte // the newest output, at most kept
	clients map[*client]bool
}

// client is a connection that has shown the token.
type client struct {
	c      net.Conn
	output chan []byte // closed when the client is let go
}

// acceptPause is the time until the next try after an error of accept, as too many open files.
const acceptPause = 100 * time.Millisecond

func (s *server) acceptAll(l net.Listener) {
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(acceptPause) //nolint:forbidigo // the kernel does not tell when descriptors are free again
			continue
		}
		s.strangers.Add(c)
		go s.serveConnection(c)
	}
}

// serveConnection serves a connection until the connection ends. A connection that shows the token gets a place, if a
// place is free.
func (s *server) serveConnection(c net.Conn) {
	defer c.Close()
	in := bufio.NewReaderSize(c, maxFrame)
	shown := s.readToken(c, in)
	s.strangers.Remove(c)
	if !shown {
		return
	}
	select {
	case s.room <- struct{}{}:
		defer func() { <-s.room }()
		s.serveClient(c, in)
	default:
	}
}

// readToken tells whether a connection shows the token in time.
func (s *server) readToken(c net.Conn, in io.Reader) bool {
	if c.SetReadDeadline(time.Now().Add(tokenTime)) != nil {
		return false
	}
	said := make([]byte, tokenSize+1)
	if _, err := io.ReadFull(in, said); err != nil || said[tokenSize] != '\n' ||
		subtle.ConstantTimeCompare(said[:tokenSize], []byte(s.token)) != 1 {
		return false
	}
	return c.SetReadDeadline(time.Time{}) == nil
}

// serveClient serves a client until the connection ends.
func (s *server) serveClient(c net.Conn, in io.Reader) {
	attached := s.attachClient(c)
	defer s.removeClient(attached)
	var buf [maxFrame]byte
	for {
		kind, b, err := readFrame(in, &buf)
		if err != nil {
			return
		}
		switch kind {
		case frameData:
			if _, err := s.master.Write(b); err != nil {
				return
			}
		case frameSize:
			size := decodeSize(b)
			_ = unix.IoctlSetWinsize(int(s.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: size.rows, Col: size.columns})
		}
	}
}

// attachClient adds a client, and begins to send the client the last output and new output.
func (s *server) attachClient(c net.Conn) *client {
	s.mu.Lock()
	defer s.mu.Unlock()
	added := &client{c, make(chan []byte, clientBacklog)}
	added.output <- append([]byte(nil), s.shown...)
	s.clients[added] = true
	go func() {
		defer c.Close()
		for b := range added.output {
			if _, err := c.Write(b); err != nil {
				return
			}
		}
	}()
	return added
}

// removeClient removes a client. A client may be let go twice.
func (s *server) removeClient(c *client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clients[c] {
		delete(s.clients, c)
		close(c.output)
	}
}

// showOutput reads the terminal's output until the last process closes the terminal.
func (s *server) showOutput() {
	buf := make([]byte, 16<<10)
	for {
		n, err := s.master.Read(buf)
		if n > 0 {
			s.sendOutput(append([]byte(nil), buf[:n]...))
		}
		if err != nil { // EIO
			return
		}
	}
}

// sendOutput sends output to all clients. A client that is too late is let go: a slow
// connection must not hold up the program.
func (s *server) sendOutput(b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shown = append(s.shown, b...)
	if over := len(s.shown) - kept; over > 0 {
		s.shown = append(s.shown[:0], s.shown[over:]...)
	}
	for c := range s.clients {
		select {
		case c.output <- b:
		default:
			delete(s.clients, c)
			close(c.output)
			c.c.Close()
		}
	}
}

// closeClients lets all clients go, after they have had all output.
func (s *server) closeClients() {
	s.mu.Lock()
	for c := range s.clients {
		delete(s.clients, c)
		close(c.output)
	}
	s.mu.Unlock()
	for range maxClients { // all places: no client is being served
		select {
		case s.room <- struct{}{}:
		case <-time.After(time.Second):
			return
		}
	}
}
