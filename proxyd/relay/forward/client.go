// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"context"
	"errors"
	"net"
	"os"

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
	"github.com/singularity-slurm/singularity-slurm/proxyd/relay/stream"
)

// Orders is the daemon's side of a connection by which orders are given.
type Orders struct{ conn *net.UnixConn }

// NewOrders returns the orders by a connection, which Close closes.
func NewOrders(c *net.UnixConn) Orders { return Orders{c} }

// Close hangs up. The state of the forwarder does not change.
func (o Orders) Close() { o.conn.Close() }

// giveOrder sends an order and receives the answer.
func (o Orders) giveOrder(ctx context.Context, what order, files ...*os.File) (reply, []*os.File, error) {
	defer localsock.InterruptAtEnd(ctx, o.conn.SetDeadline)()
	if err := sendPacket(o.conn, what, files...); err != nil {
		return reply{}, nil, err
	}
	return o.receiveReply()
}

func (o Orders) receiveReply() (r reply, files []*os.File, err error) {
	if files, err = receivePacket(o.conn, &r); err != nil {
		return r, nil, err
	}
	if r.Error != "" {
		localsock.CloseAll(files)
		return r, nil, errors.New(r.Error)
	}
	return r, files, nil
}

// Begin tells where the relay is. listener, if not nil, is where programs' connections come from; the caller
// closes its descriptor.
func (o Orders) Begin(ctx context.Context, r Relay, listener *os.File) error {
	var files []*os.File
	if listener != nil {
		files = append(files, listener)
	}
	_, got, err := o.giveOrder(ctx, order{Do: doBegin, Relay: r}, files...)
	localsock.CloseAll(got)
	return err
}

// Hold has the forwarder stand still until Continue. each, if not nil, is called with the forwarder's connections and their sockets,
// some at a time, so that the caller needs not have them all in memory; Hold closes the sockets. A second call does the same
// again.
func (o Orders) Hold(ctx context.Context, each func(some []Saved, sockets []*os.File) error) error {
	defer localsock.InterruptAtEnd(ctx, o.conn.SetDeadline)()
	r, files, err := o.giveOrder(ctx, order{Do: doHold, Quiet: each == nil})
	for err == nil {
		if each != nil {
			err = handHeld(files, each)
		}
		localsock.CloseAll(files)
		if err != nil || !r.More {
			break
		}
		r, files, err = o.receiveReply()
	}
	return err
}

// handHeld calls each with what has come in a reply to hold.
func handHeld(files []*os.File, each func([]Saved, []*os.File) error) error {
	if len(files) == 0 {
		return errors.New("no text comes along")
	}
	var some []Saved
	if err := readText(files[0], &some); err != nil {
		return err
	}
	if len(some) != len(files)-1 {
		return errors.New("not as many sockets as connections")
	}
	return each(some, files[1:])
}

// Pause has the forwarder connect no more clients to programs until Continue: these wait in the relay. What was connected before may
// not be accepted by its program yet. A second call is harmless.
func (o Orders) Pause(ctx context.Context) error {
	_, files, err := o.giveOrder(ctx, order{Do: doPause})
	localsock.CloseAll(files)
	return err
}

// Continue ends what Hold or Pause has begun: the forwarder passes bytes on and connects clients again. A second call is harmless.
func (o Orders) Continue(ctx context.Context) error {
	_, files, err := o.giveOrder(ctx, order{Do: doContinue})
	localsock.CloseAll(files)
	return err
}

// Add gives the forwarder connections of a checkpoint, with their sockets, which the caller closes.
func (o Orders) Add(ctx context.Context, all []Saved, sockets []*os.File) error {
	for len(all) > 0 {
		n := min(len(all), Batch)
		text, err := textFile(all[:n])
		if err != nil {
			return err
		}
		_, files, err := o.giveOrder(ctx, order{Do: doAdd}, append([]*os.File{text}, sockets[:n]...)...)
		text.Close()
		localsock.CloseAll(files)
		if err != nil {
			return err
		}
		all, sockets = all[n:], sockets[n:]
	}
	return nil
}

// Ask has the relay connect to where a program asks for, and returns why connect() is to fail; "" if it is to
// succeed, and the listener is to get the connection soon.
func (o Orders) Ask(ctx context.Context, from, to string) (stream.Cause, error) {
	defer localsock.InterruptAtEnd(ctx, o.conn.SetDeadline)()
	r, files, err := o.giveOrder(ctx, order{Do: doAsk, From: from, To: to})
	localsock.CloseAll(files)
	return r.Cause, err
}

// Supply gives the forwarder sockets by which it connects clients to programs, which the caller closes: as many as the status
// says are wanted.
func (o Orders) Supply(ctx context.Context, sockets []*os.File) error {
	_, files, err := o.giveOrder(ctx, order{Do: doSupply}, sockets...)
	localsock.CloseAll(files)
	return err
}

// Status returns what the forwarder has.
func (o Orders) Status(ctx context.Context) (s Status, err error) {
	_, files, err := o.giveOrder(ctx, order{Do: doStatus})
	if err != nil {
		return s, err
	}
	defer localsock.CloseAll(files)
	if len(files) != 1 {
		return s, errors.New("no text comes along")
	}
	return s, readText(files[0], &s)
}
