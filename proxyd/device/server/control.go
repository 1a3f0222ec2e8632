// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// The parent of a device server tells it what to do over a socket that it has made and the server inherits: SOCK_SEQPACKET,
// without a name, so that nobody else can reach it. A message is a line of JSON, an order is answered before the next is read:
//
//	{"do":"save","folder":F,"again":false,"within":N}   Save to a folder, in N nanoseconds      {"report":{…}}
//	{"do":"ring","process":ID}                          its ring's memory comes with the answer {}
//	{"do":"resume"}                                     Resume                                  {}
//	{"do":"leave"}                                      Leave; the server ends                  {}
//	{"do":"adopt","process":ID,"pid":PID}               Adopt; the ring may come with it        {}
//
// What failed is answered by {"error":"…"}, with "temporary":true where the same order may succeed a moment later. What is to be
// restored, the server is told when it is started.
type order struct {
	Do      string        `json:"do"`
	Folder  string        `json:"folder,omitempty"`
	Again   bool          `json:"again,omitempty"`
	Within  time.Duration `json:"within,omitempty"`
	Process uint64        `json:"process,omitempty"`
	PID     int           `json:"pid,omitempty"`
}

type reply struct {
	Error     string  `json:"error,omitempty"`
	Temporary bool    `json:"temporary,omitempty"`
	Report    *Report `json:"report,omitempty"`
}

// maxOrder is the longest message.
const maxOrder = 1 << 17

// ErrLeft is what Control returns when the server has left its processes to another one: it is to end.
var ErrLeft = errors.New("the processes were left to another device server")

// Control carries out what comes over conn until its end (nil), ErrLeft, or until conn fails. conn stays the caller's. It may be
// called once.
func (s *Server) Control(conn *net.UnixConn) error {
	for {
		var o order
		f, err := receiveLine(conn, &o)
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			return fmt.Errorf("control: %w", err)
		}
		answer, ring, err := s.obey(&o, f)
		if f != nil {
			f.Close()
		}
		if err != nil {
			answer = &reply{Error: err.Error(), Temporary: isTemporary(err)}
		}
		if bad := sendLine(conn, answer, ring); bad != nil {
			return fmt.Errorf("control: %w", bad)
		}
		if o.Do == "leave" && err == nil {
			return ErrLeft
		}
	}
}

func isTemporary(err error) bool { return !errors.Is(err, ErrNotSaved) && !errors.Is(err, ErrAbsent) }

// obey carries out one order. f came with it, or is nil. The file that it returns goes with the answer.
func (s *Server) obey(o *order, f *os.File) (*reply, *os.File, error) {
	switch o.Do {
	case "save":
		ctx, cancel := context.WithTimeout(s.ctx, o.Within)
		defer cancel()
		r, err := s.Save(ctx, Folder(o.Folder), SaveOptions{Again: o.Again})
		return &reply{Report: r}, nil, err
	case "ring":
		ring, err := s.RingOf(o.Process)
		return &reply{}, ring, err
	case "resume":
		return &reply{}, nil, s.Resume()
	case "leave":
		return &reply{}, nil, s.Leave()
	case "adopt":
		return &reply{}, nil, s.Adopt(o.Process, o.PID, f)
	}
	return nil, nil, fmt.Errorf("there is no order %q", o.Do)
}

// sendLine sends a message, with a file unless it is nil.
func sendLine(conn *net.UnixConn, message any, f *os.File) error {
	b, err := json.Marshal(message)
	if err != nil {
		return err
	}
	var rights []byte
	if f != nil {
		rights = unix.UnixRights(int(f.Fd()))
	}
	_, _, err = conn.WriteMsgUnix(append(b, '\n'), rights, nil)
	return err
}

// receiveLine receives a message and the file that came with it, if any, which is the caller's.
func receiveLine(conn *net.UnixConn, message any) (*os.File, error) {
	b, oob := make([]byte, maxOrder), make([]byte, unix.CmsgSpace(4))
	n, oobn, flags, _, err := conn.ReadMsgUnix(b, oob)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, io.EOF
	}
	f, err := fileIn(oob[:oobn])
	if err == nil && flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		err = errors.New("a message is too long")
	}
	if err == nil {
		err = json.Unmarshal(b[:n], message)
	}
	if err != nil {
		if f != nil {
			f.Close()
		}
		return nil, err
	}
	return f, nil
}

func fileIn(oob []byte) (*os.File, error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		if fds, err := unix.ParseUnixRights(&m); err == nil && len(fds) == 1 {
			unix.CloseOnExec(fds[0])
			return os.NewFile(uintptr(fds[0]), "ring"), nil
		}
	}
	return nil, nil
}

// Controller is the parent's end. It may be used by one goroutine.
type Controller struct{ conn *net.UnixConn }

// NewController makes a pair: the parent's end, and the file that the device server inherits. Both are the caller's to close.
func NewController() (*Controller, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a control socket: %w", err)
	}
	theirs := os.NewFile(uintptr(fds[1]), "control")
	conn, err := ControlConn(os.NewFile(uintptr(fds[0]), "control"))
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return &Controller{conn}, theirs, nil
}

// ControlConn makes a connection of an inherited descriptor, and closes f.
func ControlConn(f *os.File) (*net.UnixConn, error) {
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		c.Close()
		return nil, errors.New("control socket: it is none of this kind")
	}
	return u, nil
}

// OrderError is what a device server has answered.
type OrderError struct {
	Text      string
	Temporary bool // the same order may succeed a moment later
}

func (e *OrderError) Error() string { return e.Text }

func (c *Controller) order(o *order, f *os.File) (*reply, *os.File, error) {
	if err := sendLine(c.conn, o, f); err != nil {
		return nil, nil, fmt.Errorf("tell the device server to %s: %w", o.Do, err)
	}
	var r reply
	got, err := receiveLine(c.conn, &r)
	if err != nil {
		return nil, nil, fmt.Errorf("wait for the device server's %s: %w", o.Do, err)
	}
	if r.Error != "" {
		return nil, nil, &OrderError{r.Error, r.Temporary}
	}
	return &r, got, nil
}

// Save has the server save to a folder; see Server.Save.
func (c *Controller) Save(folder string, o SaveOptions, within time.Duration) (*Report, error) {
	r, _, err := c.order(&order{Do: "save", Folder: folder, Again: o.Again, Within: within}, nil)
	if err != nil {
		return nil, err
	}
	if r.Report == nil {
		return nil, errors.New("the device server has saved and says nothing of it")
	}
	return r.Report, nil
}

// Ring fetches a process's ring, which is the caller's to close. It outlives the server.
func (c *Controller) Ring(process uint64) (*os.File, error) {
	_, f, err := c.order(&order{Do: "ring", Process: process}, nil)
	if err == nil && f == nil {
		err = errors.New("the device server has sent no ring")
	}
	return f, err
}

// Adopt brings a process back to a server that was restored; ring may be nil; see Server.Adopt.
func (c *Controller) Adopt(process uint64, pid int, ring *os.File) error {
	_, _, err := c.order(&order{Do: "adopt", Process: process, PID: pid}, ring)
	return err
}

// Resume lets the job go on; see Server.Resume.
func (c *Controller) Resume() error {
	_, _, err := c.order(&order{Do: "resume"}, nil)
	return err
}

// Leave ends the server, not its processes; see Server.Leave.
func (c *Controller) Leave() error {
	_, _, err := c.order(&order{Do: "leave"}, nil)
	return err
}

// Close closes this end.
func (c *Controller) Close() error { return c.conn.Close() }
