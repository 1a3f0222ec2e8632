// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
	"github.com/singularity-slurm/singularity-slurm/proxyd/relay/stream"
)

// The orders.
const (
	doBegin    = "begin"
	doHold     = "hold"
	doContinue = "go"
	doAdd      = "add"
	doAsk      = "ask"
	doStatus   = "status"
	doSupply   = "supply"
	doPause    = "pause"
)

// order is a message of the daemon. With add, the first descriptor is a file with the connections, and the others are
// their sockets.
type order struct {
	Do    string `json:"do"`
	Relay Relay  `json:"relay,omitzero"`  // of begin
	Quiet bool   `json:"quiet,omitempty"` // of hold: do not send the connections
	From  string `json:"from,omitempty"`  // of ask
	To    string `json:"to,omitempty"`    // of ask
}

// reply is the forwarder's answer to an order. Replies to hold and status come with a file that has the text; replies
// to hold also with sockets, a batch for each reply.
type reply struct {
	Error string        `json:"error,omitempty"`
	Errno syscall.Errno `json:"errno,omitempty"` // of Error
	More  bool          `json:"more,omitempty"`  // another batch follows
	// Cause is the answer to ask.
	Cause stream.Cause `json:"cause,omitempty"`
}

// Batch is the number of connections of a reply. The daemon is root's, and needs memory for each batch: up to a
// megabyte of bytes for each connection, and their text.
const Batch = 16

// maxFiles bounds the descriptors that come in a packet, as the kernel does.
const maxFiles = 253

// maxPacket bounds a packet; long text goes by a file.
const maxPacket = 8 << 10

// maxText bounds the text of such a file.
const maxText = 1 << 30

// Connection is a connection of the capsule, for people.
type Connection struct {
	From    string `json:"from"`
	To      string `json:"to"`
	Opened  bool   `json:"opened"`            // confirmed by the relay
	Resumed bool   `json:"resumed,omitempty"` // came from a checkpoint, and is not confirmed by the relay yet
}

// Status lists the connections of a forwarder, and what it lacks.
type Status struct {
	Connections []Connection     `json:"connections"`
	Lost        []LostConnection `json:"lost"`
	Refused     bool             `json:"refused,omitempty"` // the relay has refused the ticket since the previous status
	Wanted      int              `json:"wanted,omitempty"`  // the number of sockets for clients that the forwarder lacks
}

// Run serves orders that come by a listening socket of packets, until ctx ends.
func Run(ctx context.Context, control *net.UnixListener, log *slog.Logger) error {
	f := newForwarder(ctx, log)
	defer context.AfterFunc(ctx, func() { control.Close() })()
	for {
		c, err := control.AcceptUnix()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		go func() {
			defer c.Close()
			// The folder of the socket is root's alone. This check is a second protection.
			if who, err := localsock.PeerCredentials(c); err != nil || who.Uid != 0 {
				return
			}
			if err := f.answerOrders(c); !errors.Is(err, io.EOF) {
				log.Warn("a connection with orders has failed", "error", err)
			}
		}()
	}
}

// answerOrders answers orders until the daemon hangs up, which is io.EOF.
func (f *Forwarder) answerOrders(c *net.UnixConn) error {
	for {
		var o order
		files, err := receivePacket(c, &o)
		if err != nil {
			return err
		}
		err = f.handleOrder(c, o, files)
		localsock.CloseAll(files)
		if err != nil {
			return err
		}
	}
}

// handleOrder carries an order out and sends the answer.
func (f *Forwarder) handleOrder(c *net.UnixConn, o order, files []*os.File) error {
	switch o.Do {
	case doBegin:
		return sendReply(c, f.beginRelay(o.Relay, files))
	case doHold:
		f.freezeConnections()
		if o.Quiet {
			return sendReply(c, nil)
		}
		return f.sendFrozenConnections(c)
	case doContinue:
		f.thawConnections()
		return sendReply(c, nil)
	case doAdd:
		if len(files) == 0 {
			return sendReply(c, errors.New("no connections come along"))
		}
		var all []SavedConnection
		err := readText(files[0], &all)
		if err == nil {
			err = f.resumeSaved(all, files[1:])
		}
		return sendReply(c, err)
	case doAsk:
		cause := f.requestConnection(f.ctx, ends{o.From, o.To})
		f.rest.RLock() // not between hold and go
		defer f.rest.RUnlock()
		return sendPacket(c, reply{Cause: cause})
	case doSupply:
		return sendReply(c, f.clients.addSockets(files))
	case doPause:
		f.clients.pauseConnecting()
		return sendReply(c, nil)
	case doStatus:
		return sendText(c, f.describeStatus(), reply{})
	default:
		return sendReply(c, fmt.Errorf("unknown order %q", o.Do))
	}
}

func (f *Forwarder) beginRelay(r Relay, files []*os.File) error {
	f.mu.Lock()
	f.relay = r
	close(f.relayChanged)
	f.relayChanged = make(chan struct{})
	f.mu.Unlock()
	if len(r.Clients.Ports) > 0 {
		f.clients.once.Do(func() { go f.serveOffers() })
	}
	for _, file := range files {
		if err := f.acceptFrom(file); err != nil {
			return err
		}
	}
	return nil
}

// freezeConnections stops all connections, also connections that programs have made and that are not accepted yet. A
// second call is harmless.
func (f *Forwarder) freezeConnections() {
	f.mu.Lock()
	held := f.frozen
	f.frozen = true
	f.mu.Unlock()
	if !held {
		f.rest.Lock()
	}
	f.mu.Lock()
	listeners := f.listeners
	f.mu.Unlock()
	for _, raw := range listeners {
		_ = raw.Control(func(fd uintptr) { f.acceptWaiting(int(fd)) }) // an error: the listener is closed
	}
}

// thawConnections undoes freezeConnections. A second call is harmless.
func (f *Forwarder) thawConnections() {
	f.mu.Lock()
	held := f.frozen
	f.frozen = false
	f.wentOn = time.Now()
	f.mu.Unlock()
	if held {
		f.rest.Unlock()
	}
	f.clients.resumeConnecting()
}

// sendFrozenConnections sends the connections with their sockets.
func (f *Forwarder) sendFrozenConnections(c *net.UnixConn) error {
	all := f.allConnections()
	for {
		n := min(len(all), Batch)
		var saved []SavedConnection
		var sockets []*os.File
		for _, x := range all[:n] {
			s, err := x.socket.File()
			if err != nil {
				continue // the connection has ended, and its socket is closed
			}
			saved, sockets = append(saved, x.savedState()), append(sockets, s)
		}
		all = all[n:]
		err := sendText(c, saved, reply{More: len(all) > 0}, sockets...)
		localsock.CloseAll(sockets)
		if err != nil || len(all) == 0 {
			return err
		}
	}
}

func (f *Forwarder) describeStatus() Status {
	var s Status
	for _, c := range f.allConnections() {
		c.mu.Lock()
		s.Connections = append(s.Connections, Connection{From: c.from, To: c.to, Opened: c.opened, Resumed: c.resumed})
		c.mu.Unlock()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s.Lost, s.Refused, f.refused = append(s.Lost, f.lost...), f.refused, false
	if len(f.relay.Clients.Ports) > 0 {
		s.Wanted = f.clients.countLackingSockets()
	}
	return s
}

func sendReply(c *net.UnixConn, err error) error {
	var r reply
	if err != nil {
		r.Error, r.Errno = err.Error(), localsock.FindErrno(err)
	}
	return sendPacket(c, r)
}

func sendPacket(c *net.UnixConn, v any, files ...*os.File) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return localsock.Send(c, b, localsock.Descriptors(files)...)
}

// receivePacket receives a packet and the descriptors that come along, which the caller closes.
func receivePacket(c *net.UnixConn, v any) ([]*os.File, error) {
	b := make([]byte, maxPacket)
	n, files, err := localsock.Receive(c, b, maxFiles)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b[:n], v); err != nil {
		localsock.CloseAll(files)
		return nil, err
	}
	return files, nil
}

// sendText sends a packet with a file that has v, and other files.
func sendText(c *net.UnixConn, v, packet any, files ...*os.File) error {
	f, err := textFile(v)
	if err != nil {
		return err
	}
	defer f.Close()
	return sendPacket(c, packet, append([]*os.File{f}, files...)...)
}

// textFile returns a file in memory, without a name, that has v in JSON.
func textFile(v any) (*os.File, error) {
	fd, err := unix.MemfdCreate("connections", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), "connections")
	if err := json.NewEncoder(f).Encode(v); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// readText reads a file of textFile from its beginning.
func readText(f *os.File, v any) error {
	return json.NewDecoder(io.NewSectionReader(f, 0, maxText)).Decode(v)
}
