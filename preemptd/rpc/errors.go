// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/kind"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge"
)

// Kinds of errors. A server returns an error that wraps a kind, and the client's error wraps the
// same kind. The kinds of package kind are proxyd's too.
var (
	ErrInvalid  = kind.ErrInvalid
	ErrNoJob    = kind.ErrNoJob // Slurm knows no such job
	ErrDenied   = kind.ErrDenied
	ErrBusy     = kind.ErrBusy
	ErrTimeout  = kind.ErrTimeout
	ErrRefused  = kind.ErrRefused
	ErrInternal = kind.ErrInternal

	// ErrNoAction says that there is no such action.
	ErrNoAction = errors.New("no such action")
	// ErrNotPossible says that the job cannot have the requested change, and that no action was begun.
	ErrNotPossible = errors.New("not possible")
	// ErrNothingToDo says that the job is as the request would have it, and that no action was begun.
	ErrNothingToDo = errors.New("nothing to do")
	// ErrSlurm says that Slurm does not answer preemptd.
	ErrSlurm = errors.New("Slurm does not answer") //nolint:staticcheck // a name
	// ErrUnsupported says that this preemptd does not know the request.
	ErrUnsupported = errors.New("unsupported")
	// ErrUnreachable says that no preemptd answered. Only clients make this error.
	ErrUnreachable = errors.New("preemptd does not answer")
)

// contract is the form in which errors travel.
var contract = kind.Contract{
	Rows: []kind.Row{
		{Name: "invalid", Kind: ErrInvalid, Code: codes.InvalidArgument},
		{Name: "denied", Kind: ErrDenied, Code: codes.PermissionDenied},
		{Name: "no_job", Kind: ErrNoJob, Code: codes.NotFound},
		{Name: "no_action", Kind: ErrNoAction, Code: codes.NotFound},
		{Name: "busy", Kind: ErrBusy, Code: codes.Aborted},
		{Name: "not_possible", Kind: ErrNotPossible, Code: codes.FailedPrecondition},
		{Name: "nothing_to_do", Kind: ErrNothingToDo, Code: codes.FailedPrecondition},
		{Name: "slurm", Kind: ErrSlurm, Code: codes.FailedPrecondition},
		{Name: "timeout", Kind: ErrTimeout, Code: codes.DeadlineExceeded},
		{Name: "internal", Kind: ErrInternal, Code: codes.Internal},
	},
	Unreachable: ErrUnreachable,
	Unsupported: ErrUnsupported,
}

// Error is an error with its kind. All errors of a client are of this type, except its ctx's.
type Error struct {
	Kind error  // a kind above
	Text string // the whole message; "": that of Kind
	Hint string // the person's next step
}

func (e *Error) Error() string {
	if e.Text == "" {
		return e.Kind.Error()
	}
	return e.Text
}

// Unwrap returns the kind.
func (e *Error) Unwrap() error { return e.Kind }

// Errorf returns an *Error of that kind.
func Errorf(kind error, format string, args ...any) error {
	return &Error{Kind: kind, Text: fmt.Sprintf(format, args...)}
}

// Status returns err in the form that a server sends; nil stays nil, and a status passes unchanged.
func Status(err error) error { return contract.Status(err, describeProblem) }

func describeProblem(err error, kindName, text string) kind.Problem {
	p := &Problem{Kind: kindName, Text: text}
	var e *Error
	if errors.As(err, &e) {
		p.Hint = kind.ClipText(e.Hint)
	}
	return p
}

// fromStatus returns the error of a call as an *Error. Where the caller's ctx ended the call,
// its error is returned.
func (c *Client) fromStatus(ctx context.Context, err error) error {
	untrusted := errors.Is(err, munge.ErrNoMunge) || errors.Is(err, munge.ErrUnsealed)
	if ctx.Err() != nil && !untrusted {
		return ctx.Err()
	}
	name := "preemptd at " + c.address
	f, ended := contract.ReadStatus(ctx, kind.Peer{Name: name, Daemon: name}, err)
	if ended != nil {
		return ended
	}
	e := &Error{Kind: f.Kind, Text: f.Text}
	if f.Problem != nil {
		e.Hint = f.Problem.GetHint()
	}
	return e
}
