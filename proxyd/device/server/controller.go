// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
)

// Controller is a parent's end of a control connection. The server's messages are not trusted: the server may be of
// another user. Every order ends with its ctx; after an error that is no OrderError the Controller can only be closed.
// Only one goroutine may use a Controller.
type Controller struct{ conn *net.UnixConn }

// NewController makes a Controller of a connection to a server's control socket. Close closes it.
func NewController(conn *net.UnixConn) *Controller { return &Controller{conn} }

// OrderError is an error in the answer of a device server.
type OrderError struct {
	Text      string
	Errno     syscall.Errno // of the error that the server met; 0: there is none. errors.Is finds it.
	Temporary bool          // the same order may succeed a moment later
}

func (e *OrderError) Error() string { return e.Text }

// Is implements the interface of errors.Is.
func (e *OrderError) Is(target error) bool { return target == error(e.Errno) }

// ErrNonsense means that a server does not keep to the messages of control.go.
var ErrNonsense = errors.New("the device server makes no sense")

// orderResult is the server's answer to an order, and the file that came with it.
type orderResult struct {
	answer []byte
	f      *os.File
}

// giveOrder gives an order and serves the server's files until the order is done. files may be nil.
func (c *Controller) giveOrder(ctx context.Context, o *order, f *os.File, files *carrier) (*orderResult, error) {
	defer interruptWith(ctx, c.conn.SetDeadline)()
	result, err := c.exchangeMessages(o, f, files)
	var said *OrderError
	switch {
	case err == nil || errors.As(err, &said):
	case ctx.Err() != nil:
		err = fmt.Errorf("device server: %s: %w", o.Do, context.Cause(ctx))
	default:
		err = fmt.Errorf("device server: %s: %w", o.Do, err)
	}
	if files != nil {
		if err != nil && said == nil {
			_ = c.conn.SetDeadline(time.Unix(1, 0)) // no more messages come here
		}
		// The error of a file is why the server has failed, unless that was the end of the time.
		if bad := files.endCarrying(err); bad != nil && (ctx.Err() == nil || !errors.Is(bad, os.ErrDeadlineExceeded)) {
			err = bad
		}
	}
	if err != nil && result != nil && result.f != nil {
		result.f.Close()
	}
	if err != nil {
		return nil, err
	}
	return result, nil
}

func (c *Controller) exchangeMessages(o *order, f *os.File, files *carrier) (*orderResult, error) {
	if err := sendMessage(c.conn, o, f); err != nil {
		return nil, err
	}
	var answer []byte
	for {
		var r reply
		got, err := receiveMessage(c.conn, &r)
		if err != nil {
			return nil, err
		}
		if r.Done && r.Error == "" {
			return &orderResult{answer, got}, nil
		}
		if got != nil {
			got.Close()
		}
		switch {
		case r.Done:
			return nil, &OrderError{plainText(r.Error), r.Errno, r.Temporary}
		case r.Part != nil:
			if len(answer)+len(r.Part) > maxAnswer {
				return nil, fmt.Errorf("an answer of more than %d bytes: %w", maxAnswer, ErrNonsense)
			}
			answer = append(answer, r.Part...)
		case files == nil:
			return nil, fmt.Errorf("it asks for files: %w", ErrNonsense)
		default:
			if err := files.beginAsked(&r); err != nil {
				return nil, err
			}
		}
	}
}

// parseInto decodes the result of an order.
func (r *orderResult) parseInto(into any) error {
	if r.f != nil {
		r.f.Close()
	}
	if err := json.Unmarshal(r.answer, into); err != nil {
		return fmt.Errorf("its answer: %w: %w", ErrNonsense, err)
	}
	return nil
}

// Status asks a server for its contents; see Server.Status. The texts of the answer are bounded and printable.
func (c *Controller) Status(ctx context.Context) (*Status, error) {
	result, err := c.giveOrder(ctx, &order{Do: "status"}, nil, nil)
	if err != nil {
		return nil, err
	}
	st := &Status{}
	if err := result.parseInto(st); err != nil {
		return nil, err
	}
	st.boundTexts()
	return st, nil
}

// Save has the server save to a sink; see Server.Save. When Save returns nil all files are complete, but for
// Report.Kept: that the save that this save was made upon has these is the server's claim. If Save fails the job runs
// on; only if the error is no OrderError, the server may have stopped the job before the server knew: then Resume is to
// be tried. The files written are of no use then. Processes and numbers in the report are the server's claim.
func (c *Controller) Save(ctx context.Context, sink Sink, o SaveOptions) (*Report, error) {
	files := newCarrier(c.conn, sink, nil)
	result, err := c.giveOrder(ctx, &order{Do: "save", Upon: o.Upon, Attempt: o.Attempt}, nil, files)
	if err != nil {
		return nil, err
	}
	r := &Report{}
	if err := result.parseInto(r); err != nil {
		return nil, err
	}
	if len(r.Files) > maxFiles || slices.ContainsFunc(r.Files, func(n string) bool { return checkName(n) != nil }) {
		return nil, fmt.Errorf("it names %d files: %w", len(r.Files), ErrNonsense)
	}
	if !files.isComplete(stateName) || !slices.Contains(r.Files, stateName) {
		return nil, fmt.Errorf("it has saved no %s: %w", stateName, ErrNonsense)
	}
	if len(r.ID) > maxID {
		return nil, fmt.Errorf("it calls its save %.80q: %w", r.ID, ErrNonsense)
	}
	slices.Sort(r.Files)
	r.Files, r.Kept = slices.Compact(r.Files), nil
	for _, name := range r.Files {
		switch {
		case files.isComplete(name):
		case o.Upon == "":
			return nil, fmt.Errorf("it has not saved %s: %w", name, ErrNonsense)
		default: // the caller knows whether there is such a file
			r.Kept = append(r.Kept, name)
		}
	}
	return r, nil
}

// maxID bounds the length of a save's ID from a server.
const maxID = 64

// Restore has the server build a saved state; see Server.Restore.
func (c *Controller) Restore(ctx context.Context, src Source) error {
	return c.giveOrderWithoutAnswer(ctx, &order{Do: "restore"}, nil, newCarrier(c.conn, nil, src))
}

// giveOrderWithoutAnswer gives an order with an empty answer.
func (c *Controller) giveOrderWithoutAnswer(ctx context.Context, o *order, f *os.File, files *carrier) error {
	result, err := c.giveOrder(ctx, o, f, files)
	if err == nil && result.f != nil {
		result.f.Close()
	}
	return err
}

// FetchHostMappings fetches the files of a process's n host mappings from the server, for a caller that may not fetch
// them from the process. The files are the caller's to close, and outlive the server.
func (c *Controller) FetchHostMappings(ctx context.Context, process uint64, n int) ([]*os.File, error) {
	var all []*os.File
	for i := range n {
		result, err := c.giveOrder(ctx, &order{Do: "belonging", Process: process, Nth: i}, nil, nil)
		if err == nil && result.f == nil {
			err = fmt.Errorf("it has sent no memory: %w", ErrNonsense)
		}
		if err != nil {
			localsock.CloseAll(all)
			return nil, err
		}
		all = append(all, result.f)
	}
	return all, nil
}

// Adopt brings a process back to a server that was restored; with may be empty, and stays the caller's; see Server.Adopt.
func (c *Controller) Adopt(ctx context.Context, process uint64, pid int, with []*os.File) error {
	for _, f := range with {
		if err := c.giveOrderWithoutAnswer(ctx, &order{Do: "bring"}, f, nil); err != nil {
			return err
		}
	}
	return c.giveOrderWithoutAnswer(ctx, &order{Do: "adopt", Process: process, PID: pid}, nil, nil)
}

// Resume lets the job go on; see Server.Resume.
func (c *Controller) Resume(ctx context.Context) error {
	return c.giveOrderWithoutAnswer(ctx, &order{Do: "resume"}, nil, nil)
}

// Place has the job's devices be on other devices of the machine; see Server.Place.
func (c *Controller) Place(ctx context.Context, places []int) error {
	return c.giveOrderWithoutAnswer(ctx, &order{Do: "place", Places: places}, nil, nil)
}

// Arrange has the job's devices be on other devices of the machine, devices that are alike together; see
// Server.Arrange. A server of an earlier release takes the order for Place.
func (c *Controller) Arrange(ctx context.Context, places []int) error {
	return c.giveOrderWithoutAnswer(ctx, &order{Do: "place", Places: places, Alike: true}, nil, nil)
}

// Leave ends the server, not its processes; see Server.Leave.
func (c *Controller) Leave(ctx context.Context) error {
	return c.giveOrderWithoutAnswer(ctx, &order{Do: "leave"}, nil, nil)
}

// Admit has a process with several tenants serve another. control is the tenant's listening socket for orders, programs its
// bound socket for programs, which does not listen; both stay the caller's.
func (c *Controller) Admit(ctx context.Context, a Admission, control, programs *os.File) error {
	for _, f := range []*os.File{control, programs} {
		if err := c.giveOrderWithoutAnswer(ctx, &order{Do: "bring"}, f, nil); err != nil {
			return err
		}
	}
	return c.giveOrderWithoutAnswer(ctx, &order{Do: "admit", Admit: &a}, nil, nil)
}

// Dismiss has a process with several tenants end one. A tenant that is not there is no error.
func (c *Controller) Dismiss(ctx context.Context, name string) error {
	return c.giveOrderWithoutAnswer(ctx, &order{Do: "dismiss", Tenant: name}, nil, nil)
}

// Tenants are the names of the tenants of a process.
func (c *Controller) Tenants(ctx context.Context) ([]string, error) {
	result, err := c.giveOrder(ctx, &order{Do: "tenants"}, nil, nil)
	if err != nil {
		return nil, err
	}
	var names []string
	if err := result.parseInto(&names); err != nil {
		return nil, err
	}
	return boundTexts(names, maxTenants), nil
}

// Close closes the connection.
func (c *Controller) Close() error { return c.conn.Close() }

// interruptWith ends, with ctx, the operations for which f sets a deadline. The returned function stops this.
func interruptWith(ctx context.Context, f func(time.Time) error) func() {
	_ = f(time.Time{})
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = f(time.Unix(1, 0)) // long ago
		close(done)
	})
	return func() {
		if !stop() {
			<-done
		}
	}
}
