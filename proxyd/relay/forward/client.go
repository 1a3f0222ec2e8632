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

// Orders is the daemon's side of a connection for orders.
type Orders struct{ conn *net.UnixConn }

// NewOrders returns Orders that use a connection, which Close closes.
func NewOrders(c *net.UnixConn) Orders { return Orders{c} }

// Close hangs up. The state of the forwarder does not change.
func (o Orders) Close() { o.conn.Close() }

// exchangeOrder sends an order and receives the answer.
func (o Orders) exchangeOrder(ctx context.Context, what order, files ...*os.File) (reply, []*os.File, error) {
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
		return r, nil, &localsock.ToldError{Text: r.Error, Errno: r.Errno}
	}
	return r, files, nil
}

// Begin tells the forwarder the relay's address. listener, if not nil, is the socket from which programs' connections
// are accepted; the caller closes its descriptor.
func (o Orders) Begin(ctx context.Context, r Relay, listener *os.File) error {
	var files []*os.File
	if listener != nil {
		files = append(files, listener)
	}
	_, got, err := o.exchangeOrder(ctx, order{Do: doBegin, Relay: r}, files...)
	localsock.CloseAll(got)
	return err
}

// Hold stops the forwarder until Continue. each, if not nil, is called with the forwarder's connections and their
// sockets, some at a time, so that the caller need not have them all in memory; Hold closes the sockets. A second call
// hands them out again.
func (o Orders) Hold(ctx context.Context, each func(some []SavedConnection, sockets []*os.File) error) error {
	defer localsock.InterruptAtEnd(ctx, o.conn.SetDeadline)()
	r, files, err := o.exchangeOrder(ctx, order{Do: doHold, Quiet: each == nil})
	for err == nil {
		if each != nil {
			err = deliverSaved(files, each)
		}
		localsock.CloseAll(files)
		if err != nil || !r.More {
			break
		}
		r, files, err = o.receiveReply()
	}
	return err
}

// deliverSaved calls each with the connections and sockets of a reply to hold.
func deliverSaved(files []*os.File, each func([]SavedConnection, []*os.File) error) error {
	if len(files) == 0 {
		return errors.New("no text comes along")
	}
	var some []SavedConnection
	if err := readText(files[0], &some); err != nil {
		return err
	}
	if len(some) != len(files)-1 {
		return errors.New("not as many sockets as connections")
	}
	return each(some, files[1:])
}

// Pause has the forwarder connect no more clients to programs until Continue: clients wait in the relay. A client that
// was connected before may not be accepted by its program yet. A second call is harmless.
func (o Orders) Pause(ctx context.Context) error {
	_, files, err := o.exchangeOrder(ctx, order{Do: doPause})
	localsock.CloseAll(files)
	return err
}

// Continue ends the effect of Hold and Pause: the forwarder passes bytes on and connects clients again. A second call
// is harmless.
func (o Orders) Continue(ctx context.Context) error {
	_, files, err := o.exchangeOrder(ctx, order{Do: doContinue})
	localsock.CloseAll(files)
	return err
}

// Add gives the forwarder connections of a checkpoint, with their sockets, which the caller closes.
func (o Orders) Add(ctx context.Context, all []SavedConnection, sockets []*os.File) error {
	for len(all) > 0 {
		n := min(len(all), Batch)
		text, err := textFile(all[:n])
		if err != nil {
			return err
		}
		_, files, err := o.exchangeOrder(ctx, order{Do: doAdd}, append([]*os.File{text}, sockets[:n]...)...)
		text.Close()
		localsock.CloseAll(files)
		if err != nil {
			return err
		}
		all, sockets = all[n:], sockets[n:]
	}
	return nil
}

// Ask has the relay connect to the address that a program asks for, and returns the cause with which connect() is to
// fail; "" if it is to succeed, and the listener is to get the connection soon.
func (o Orders) Ask(ctx context.Context, from, to string) (stream.Cause, error) {
	defer localsock.InterruptAtEnd(ctx, o.conn.SetDeadline)()
	r, files, err := o.exchangeOrder(ctx, order{Do: doAsk, From: from, To: to})
	localsock.CloseAll(files)
	return r.Cause, err
}

// Supply gives the forwarder sockets by which it connects clients to programs, which the caller closes: as many as
// Status.Wanted.
func (o Orders) Supply(ctx context.Context, sockets []*os.File) error {
	_, files, err := o.exchangeOrder(ctx, order{Do: doSupply}, sockets...)
	localsock.CloseAll(files)
	return err
}

// Status returns the forwarder's connections and needs.
func (o Orders) Status(ctx context.Context) (s Status, err error) {
	_, files, err := o.exchangeOrder(ctx, order{Do: doStatus})
	if err != nil {
		return s, err
	}
	defer localsock.CloseAll(files)
	if len(files) != 1 {
		return s, errors.New("no text comes along")
	}
	return s, readText(files[0], &s)
}
