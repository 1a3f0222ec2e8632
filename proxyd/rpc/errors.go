// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/kind"
)

// Kinds of errors. A server returns an error that wraps a kind, and the client's error wraps the
// same kind. The kinds of package kind are preemptd's too.
var (
	ErrInvalid  = kind.ErrInvalid
	ErrNoJob    = kind.ErrNoJob // neither in Slurm nor among the checkpoints
	ErrDenied   = kind.ErrDenied
	ErrBusy     = kind.ErrBusy
	ErrTimeout  = kind.ErrTimeout
	ErrRefused  = kind.ErrRefused
	ErrInternal = kind.ErrInternal

	// ErrNotProtected says that the job runs without --singularity.
	ErrNotProtected = errors.New("job runs without --singularity")
	// ErrNotRunning says that the job runs nowhere now.
	ErrNotRunning = errors.New("job is not running")
	// ErrNotLeader says that another node leads this job; Error.Node names it if known.
	ErrNotLeader = errors.New("another node leads this job")
	// ErrObstacle says that something in the job cannot be captured; Error.Obstacles names it.
	ErrObstacle = errors.New("something in the job cannot be captured")
	// ErrNoCheckpoint says that there is no such checkpoint.
	ErrNoCheckpoint = errors.New("no such checkpoint")
	// ErrDamaged says that a checkpoint or chunk differs from the content that was written.
	ErrDamaged = errors.New("damaged")
	// ErrSpace says that a checkpoint does not fit.
	ErrSpace = errors.New("no space")
	// ErrScriptEnded says that the job's batch script has ended, and ErrRestoring that programs of the job are not restored
	// yet: the job cannot be captured.
	ErrScriptEnded = errors.New("the batch script has ended")
	ErrRestoring   = errors.New("the job is still being restored")
	// ErrNotNow says that a program of the job cannot be captured at this moment, and probably can soon.
	ErrNotNow = errors.New("the job cannot be captured at this moment")
	// ErrGivenUp says that a node has ended its programs of a run, because the run could not be restored.
	ErrGivenUp = errors.New("this run could not be restored")
	// ErrTransient and ErrLasting are of a node's answer to a call of another node. ErrTransient says that the
	// reason ends without a person's help: the same call may succeed soon. ErrLasting says that it does not. A node of
	// an older release says neither.
	ErrTransient = errors.New("the reason ends by itself")
	ErrLasting   = errors.New("the reason does not end by itself")
	// ErrNotHere says that a node has no part of the job, or no more.
	ErrNotHere = errors.New("no part of the job is here")
	// ErrUnsupported says that a node lacks something that is needed.
	ErrUnsupported = errors.New("unsupported")
	// ErrUnreachable says that no proxyd answered. Only clients make it.
	ErrUnreachable = errors.New("proxyd does not answer")
)

// contract is the table by which errors travel over gRPC.
var contract = kind.Contract{
	Rows: []kind.Row{
		{Name: "invalid", Kind: ErrInvalid, Code: codes.InvalidArgument},
		{Name: "denied", Kind: ErrDenied, Code: codes.PermissionDenied},
		{Name: "no_job", Kind: ErrNoJob, Code: codes.NotFound},
		{Name: "no_checkpoint", Kind: ErrNoCheckpoint, Code: codes.NotFound},
		{Name: "not_protected", Kind: ErrNotProtected, Code: codes.FailedPrecondition},
		{Name: "not_running", Kind: ErrNotRunning, Code: codes.FailedPrecondition},
		{Name: "not_leader", Kind: ErrNotLeader, Code: codes.FailedPrecondition},
		{Name: "obstacle", Kind: ErrObstacle, Code: codes.FailedPrecondition},
		{Name: "unsupported", Kind: ErrUnsupported, Code: codes.FailedPrecondition},
		{Name: "not_here", Kind: ErrNotHere, Code: codes.NotFound},
		{Name: "script_ended", Kind: ErrScriptEnded, Code: codes.FailedPrecondition},
		{Name: "not_now", Kind: ErrNotNow, Code: codes.Aborted},
		{Name: "restoring", Kind: ErrRestoring, Code: codes.Aborted},
		{Name: "busy", Kind: ErrBusy, Code: codes.Aborted},
		{Name: "damaged", Kind: ErrDamaged, Code: codes.DataLoss},
		{Name: "space", Kind: ErrSpace, Code: codes.ResourceExhausted},
		{Name: "given_up", Kind: ErrGivenUp, Code: codes.FailedPrecondition},
		{Name: "timeout", Kind: ErrTimeout, Code: codes.DeadlineExceeded},
		// The code of both is that of "internal": a client that does not know the name takes them for that.
		{Name: "transient", Kind: ErrTransient, Code: codes.Internal},
		{Name: "lasting", Kind: ErrLasting, Code: codes.Internal},
		{Name: "internal", Kind: ErrInternal, Code: codes.Internal},
	},
	Unreachable: ErrUnreachable,
	Unsupported: ErrUnsupported,
}

// Error is an error with its kind. A server may return an Error to say more than a text. All errors
// of a client are Errors, except its ctx's.
type Error struct {
	Kind      error  // a kind from above
	Text      string // the whole message; "" : that of Kind
	Hint      string // a remedy, for the caller
	Node      string // ErrNotLeader: the leader; ErrUnreachable, ErrRefused: the node that was called
	Obstacles []*Obstacle

	cause error // see kind.Failure
}

func (e *Error) Error() string {
	if e.Text == "" {
		return e.Kind.Error()
	}
	return e.Text
}

// Unwrap returns the kind, and the cause on the client's side, such as munge.ErrNoMunge, if there is one.
func (e *Error) Unwrap() []error {
	if e.cause == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.cause}
}

// Errorf returns an *Error of that kind.
func Errorf(kind error, format string, args ...any) error {
	return &Error{Kind: kind, Text: fmt.Sprintf(format, args...)}
}

// Status returns err as a server sends it; nil stays nil, and a status passes unchanged.
func Status(err error) error { return contract.Status(err, describeProblem) }

// maxObstacles limits the obstacles that an error names: a status travels in headers, which have a
// limit.
const maxObstacles = 16

func describeProblem(err error, kindName, text string) kind.Problem {
	p := &Problem{Kind: kindName, Text: text}
	var e *Error
	if errors.As(err, &e) {
		p.Hint, p.Node = kind.ClipText(e.Hint), kind.ClipText(e.Node)
		p.Obstacles = e.Obstacles[:min(len(e.Obstacles), maxObstacles)]
	}
	return p
}

// fromStatus returns the error of a call of node as an *Error; nil stays nil. Where the
// caller's ctx ended the call, its error is returned.
func fromStatus(ctx context.Context, node string, err error) error {
	switch {
	case err == nil:
		return nil
	case status.Code(err) == codes.Canceled:
		return cmp.Or(ctx.Err(), context.Canceled)
	}
	f, ended := contract.ReadStatus(ctx, kind.Peer{Name: "node " + node, Daemon: "node " + node + ": proxyd"}, err)
	if ended != nil {
		return ended
	}
	e := &Error{Kind: f.Kind, Text: f.Text, Node: node, cause: f.Cause}
	if p, ok := f.Problem.(*Problem); ok {
		e.Hint, e.Node, e.Obstacles = p.GetHint(), p.GetNode(), p.GetObstacles()
	}
	return e
}
