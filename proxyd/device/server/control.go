// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"syscall"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/cut"
	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
)

// The parent of a device server gives orders over a socket that it has made, SOCK_SEQPACKET, in a folder that only the
// parent may enter, and that the server inherits, listening. Several connections are served at a time, so that an order
// that waits holds up no other order; orders that exclude each other wait for each other. When a connection ends the
// server goes on: the parent may be another process by then. A message is a line of JSON. An order, from the parent, is
// answered before the next is given:
//
//	{"do":"status"}                        the server's contents            Status
//	{"do":"exchange","orders":{…}}         Exchange                         exchangeAnswer
//	{"do":"save","upon":ID}                Save, to a Sink of the parent's  Report
//	{"do":"restore"}                       Restore, from a Source of its
//	{"do":"belonging","process":ID,"nth":N}
//	                                       the N-th of its HostMappings comes with the answer
//	{"do":"resume"}                        Resume
//	{"do":"leave"}                         Leave; the server ends
//	{"do":"place","places":[I,…]}          Place; with "alike":true, Arrange
//	{"do":"bring"}                         the file that comes along is for the next adopt, behind the earlier files
//	{"do":"adopt","process":ID,"pid":PID}  Adopt
//	{"do":"address"}                       where other servers reach it    a string
//	{"do":"reconnect","peers":{N:A,…}}     Reconnect
//
// A server of several capsules has a socket of its own for orders about these, its tenants, beside those of the tenants:
//
//	{"do":"admit","admit":{…}}             admitTenant; the files that were brought are the tenant's sockets
//	{"do":"dismiss","tenant":NAME}         dismissTenant
//	{"do":"tenants"}                       their names                     [string]
//
// The answer is {"done":true}, or {"done":true,"error":"…"}, with "temporary":true where the same order may succeed a
// moment later. The result of an order, the right column, comes before the answer in as many {"part":"BASE64"} as
// needed.
//
// Files of a save and of a restore go through pipes, which the parent makes; both ends have O_NONBLOCK. During such an
// order the server asks, for any number of files at a time, and is answered by their names:
//
//	{"create":NAME}             {"file":NAME}, with the end that is written to
//	{"close":NAME,"length":N}   {"file":NAME} when the parent has all N bytes where they belong. It has closed its end before
//	{"open":NAME}               {"file":NAME}, with the end that is read from, until its end of file
//
// A refusal is {"file":NAME,"error":"…"}. A parent that cannot take more of a file closes its end of the pipe. If a
// server ends before it has asked for the close, the bytes that it has written belong to no file. A parent that ends
// the connection ends the order: a save that is not done has failed then, and the job runs on.
type order struct {
	Do      string `json:"do,omitempty"`
	Process uint64 `json:"process,omitempty"`
	PID     int    `json:"pid,omitempty"`
	Nth     int    `json:"nth,omitempty"`
	Attempt uint64 `json:"attempt,omitempty"` // of a save
	Upon    string `json:"upon,omitempty"`    // of a save

	Orders *cut.Orders    `json:"orders,omitempty"` // of an exchange
	Peers  map[int]string `json:"peers,omitempty"`  // of a reconnect
	Places []int          `json:"places,omitempty"`
	Alike  bool           `json:"alike,omitempty"`

	Admit  *Admission `json:"admit,omitempty"`
	Tenant string     `json:"tenant,omitempty"` // of a dismissal

	// The answer to a request of the server, instead of an order.
	File  string `json:"file,omitempty"`
	Error string `json:"error,omitempty"`
}

// reply is a message of the server.
type reply struct {
	Done      bool          `json:"done,omitempty"`
	Error     string        `json:"error,omitempty"`
	Errno     syscall.Errno `json:"errno,omitempty"` // of Error
	Temporary bool          `json:"temporary,omitempty"`
	Part      []byte        `json:"part,omitempty"`

	Create string `json:"create,omitempty"`
	Close  string `json:"close,omitempty"`
	Length int64  `json:"length,omitempty"`
	Open   string `json:"open,omitempty"`
}

const (
	maxParents = 16      // connections at a time
	maxMessage = 1 << 17 // bytes
	maxPart    = 1 << 15 // bytes of an answer in one message
	maxAnswer  = 1 << 23 // bytes of all parts
)

// ErrLeft is what ServeControl returns when the server has left its processes to another server: this server is to end.
var ErrLeft = errors.New("the processes were left to another device server")

// ServeControl carries out the orders of the processes that connect to l. They must be of the user that has made l.
// ServeControl returns nil after Close, ErrLeft, or the error of l, and closes l. ServeControl may be called once.
func (s *Server) ServeControl(l *net.UnixListener) error {
	return (&orderSocket{s.ctx, s.cfg.Log, s.obeyOrder}).serveSocket(l)
}

// orderSocket serves a socket for orders. The results of an order go into the answer, with the file, which is then
// closed.
type orderSocket struct {
	ctx  context.Context // ends the serving
	log  *slog.Logger
	obey func(context.Context, *controlSession, *receivedMessage) (any, *os.File, error)
}

// serveSocket is the body of ServeControl.
func (s *orderSocket) serveSocket(l *net.UnixListener) error {
	defer l.Close()
	defer context.AfterFunc(s.ctx, func() { l.Close() })()
	owner, err := localsock.PeerCredentials(l)
	if err != nil {
		return fmt.Errorf("control: %w", err)
	}
	var all errgroup.Group
	all.SetLimit(maxParents)
	left, leave := context.WithCancel(s.ctx)
	defer leave()
	for left.Err() == nil {
		conn, err := l.AcceptUnix()
		switch {
		case left.Err() != nil, s.ctx.Err() != nil: // l may be closed before left, the child context, has ended
			if err == nil {
				conn.Close()
			}
		case err != nil:
			return errors.Join(fmt.Errorf("control: %w", err), all.Wait())
		default:
			all.Go(func() error {
				defer conn.Close()
				err := s.serveIfOwner(left, conn, owner.Uid)
				if errors.Is(err, ErrLeft) {
					leave()
					l.Close()
					return err
				}
				if err != nil {
					s.log.Warn("a control connection has failed", "error", err)
				}
				return nil
			})
		}
	}
	return all.Wait()
}

// serveIfOwner carries out the orders of a connected process, if the process may give orders.
func (s *orderSocket) serveIfOwner(ctx context.Context, conn *net.UnixConn, owner uint32) error {
	peer, err := localsock.PeerCredentials(conn)
	if err == nil && peer.Uid != owner {
		err = fmt.Errorf("user %d has connected, and not %d", peer.Uid, owner)
	}
	if err != nil {
		return err
	}
	return s.serveConnection(ctx, conn)
}

// serveConnection carries out the orders of a connection until its end.
func (s *orderSocket) serveConnection(ctx context.Context, conn *net.UnixConn) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	h := &controlSession{conn: conn, orders: make(chan receivedMessage, 1), waiting: map[string]chan<- receivedMessage{}}
	read := make(chan error, 1)
	defer func() { localsock.CloseAll(h.brought) }()
	go func() {
		read <- h.readMessages()
		cancel() // ends the order of a parent that is gone
	}()
	for o := range h.orders {
		answer, f, err := s.obey(ctx, h, &o)
		if o.f != nil {
			o.f.Close()
		}
		bad := h.answerOrder(answer, f, err)
		if f != nil {
			f.Close()
		}
		if bad != nil {
			if ctx.Err() != nil {
				break // the parent has gone without waiting for the answer
			}
			return bad
		}
		if o.Do == "leave" && err == nil {
			return ErrLeft
		}
	}
	return <-read
}

func isTemporary(err error) bool {
	for _, final := range []error{ErrNotSaved, ErrAbsent, ErrRestore, errNoRing, ErrNotPlaced, errNotAdmitted} {
		if errors.Is(err, final) {
			return false
		}
	}
	return true
}

// obeyOrder carries out an order.
func (s *Server) obeyOrder(ctx context.Context, h *controlSession, o *receivedMessage) (any, *os.File, error) {
	switch o.Do {
	case "status":
		return s.Status(), nil, nil
	case "save":
		r, err := s.Save(ctx, h, SaveOptions{Upon: o.Upon, Attempt: o.Attempt})
		return r, nil, err
	case "restore":
		return nil, nil, s.Restore(ctx, h)
	case "belonging":
		f, err := s.HostMappingFile(o.Process, o.Nth)
		return nil, f, err
	case "resume":
		return nil, nil, s.Resume()
	case "exchange":
		r, err := s.exchangeEvents(ctx, o.Orders)
		return r, nil, err
	case "leave":
		return nil, nil, s.Leave()
	case "place":
		if o.Alike {
			return nil, nil, s.Arrange(ctx, o.Places)
		}
		return nil, nil, s.Place(ctx, o.Places)
	case "bring":
		return nil, nil, h.keepOrderFile(o)
	case "adopt":
		err := s.Adopt(o.Process, o.PID, h.brought)
		localsock.CloseAll(h.brought)
		h.brought = nil
		return nil, nil, err
	case "address":
		at, err := s.Address(ctx)
		return at, nil, err
	case "reconnect":
		return nil, nil, s.Reconnect(ctx, o.Peers)
	}
	return nil, nil, fmt.Errorf("there is no order %q", o.Do)
}

// sendMessage sends a message, with a file unless f is nil.
func sendMessage(conn *net.UnixConn, message any, f *os.File) error {
	b, err := json.Marshal(message)
	if err != nil {
		return err
	}
	if f == nil {
		_, err = conn.Write(append(b, '\n'))
		return err
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	// Not Fd, which would make f blocking.
	bad := raw.Control(func(fd uintptr) { _, _, err = conn.WriteMsgUnix(append(b, '\n'), unix.UnixRights(int(fd)), nil) })
	return errors.Join(bad, err)
}

// receiveMessage receives a message and the file that came with it, if any. The file is the caller's. io.EOF is the
// end.
func receiveMessage(conn *net.UnixConn, message any) (*os.File, error) {
	b := make([]byte, maxMessage)
	n, files, err := localsock.Receive(conn, b, 1)
	switch {
	case errors.Is(err, localsock.ErrTooMuch):
		return nil, errors.New("a message is too long, or has several files")
	case err != nil:
		return nil, err
	case len(files) > 1: // the kernel's room for one descriptor has room for two
		err = fmt.Errorf("a message with %d files", len(files))
	default:
		err = json.Unmarshal(b[:n], message)
	}
	if err != nil {
		localsock.CloseAll(files)
		return nil, err
	}
	if len(files) == 0 {
		return nil, nil
	}
	return files[0], nil
}
