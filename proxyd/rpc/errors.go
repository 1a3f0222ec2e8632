// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge"
)

// Kinds of errors. A server returns an error that wraps one, and the client's error wraps
// the same.
var (
	// ErrInvalid says that what was asked makes no sense as written.
	ErrInvalid = errors.New("invalid request")
	// ErrNoJob says that there is no such job, neither in Slurm nor among the checkpoints.
	ErrNoJob = errors.New("no such job")
	// ErrNotProtected says that the job runs without --singularity.
	ErrNotProtected = errors.New("job runs without --singularity")
	// ErrNotRunning says that the job runs nowhere now.
	ErrNotRunning = errors.New("job is not running")
	// ErrNotLeader says that another node leads this job; Error.Node names it if known.
	ErrNotLeader = errors.New("another node leads this job")
	// ErrDenied says that the caller may not do this.
	ErrDenied = errors.New("not permitted")
	// ErrBusy says that the same is already under way.
	ErrBusy = errors.New("already under way")
	// ErrObstacle says that something in the job cannot be captured; Error.Obstacles names it.
	ErrObstacle = errors.New("something in the job cannot be captured")
	// ErrNoCheckpoint says that there is no such checkpoint.
	ErrNoCheckpoint = errors.New("no such checkpoint")
	// ErrDamaged says that a checkpoint or chunk is not what was written.
	ErrDamaged = errors.New("damaged")
	// ErrSpace says that a checkpoint does not fit.
	ErrSpace = errors.New("no space")
	// ErrTimeout says that a deadline passed.
	ErrTimeout = errors.New("timed out")
	// ErrUnsupported says that a node lacks something that is needed.
	ErrUnsupported = errors.New("unsupported")
	// ErrUnreachable says that no proxyd answered. Only clients make it.
	ErrUnreachable = errors.New("proxyd does not answer")
	// ErrRefused says that a credential was not accepted, or a reply had no right seal.
	// Only clients make it.
	ErrRefused = errors.New("not trusted")
	// ErrInternal is every other error of a server.
	ErrInternal = errors.New("internal error")
)

// kinds is how errors travel. What comes first wins when an error wraps several.
var kinds = []struct {
	name string // on the wire; never changed
	is   error
	code codes.Code
}{
	{"invalid", ErrInvalid, codes.InvalidArgument},
	{"denied", ErrDenied, codes.PermissionDenied},
	{"no_job", ErrNoJob, codes.NotFound},
	{"no_checkpoint", ErrNoCheckpoint, codes.NotFound},
	{"not_protected", ErrNotProtected, codes.FailedPrecondition},
	{"not_running", ErrNotRunning, codes.FailedPrecondition},
	{"not_leader", ErrNotLeader, codes.FailedPrecondition},
	{"obstacle", ErrObstacle, codes.FailedPrecondition},
	{"unsupported", ErrUnsupported, codes.FailedPrecondition},
	{"busy", ErrBusy, codes.Aborted},
	{"damaged", ErrDamaged, codes.DataLoss},
	{"space", ErrSpace, codes.ResourceExhausted},
	{"timeout", ErrTimeout, codes.DeadlineExceeded},
	{"internal", ErrInternal, codes.Internal},
}

// Error is an error with its kind. A server may return one to say more than a text, and a
// client returns nothing else.
type Error struct {
	Kind      error  // one of those above
	Text      string // the whole message; "" : that of Kind
	Hint      string // what the person may do
	Node      string // ErrNotLeader: who leads; ErrUnreachable, ErrRefused: who was asked
	Obstacles []*Obstacle
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

// Status is err as a server sends it; nil stays nil. A status passes as it is.
func Status(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	if errors.Is(err, context.Canceled) {
		return status.Error(codes.Canceled, text(err))
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", ErrTimeout, err)
	}
	row := kinds[len(kinds)-1]
	for _, k := range kinds {
		if errors.Is(err, k.is) {
			row = k
			break
		}
	}
	p := &Problem{Kind: row.name, Text: text(err)}
	var e *Error
	if errors.As(err, &e) {
		p.Hint, p.Node, p.Obstacles = clip(e.Hint), clip(e.Node), e.Obstacles
	}
	if len(p.Obstacles) > maxObstacles {
		p.Obstacles = p.Obstacles[:maxObstacles]
	}
	st, problem := status.New(row.code, p.Text).WithDetails(p)
	if problem != nil { // not UTF-8, deep in an obstacle
		return status.Error(row.code, p.Text)
	}
	return st.Err()
}

const (
	// A status travels in headers, which have a limit.
	maxObstacles = 16
	maxText      = 2 << 10
)

func text(err error) string { return clip(err.Error()) }

func clip(s string) string {
	if len(s) > maxText {
		s = s[:maxText] + " …"
	}
	return strings.ToValidUTF8(s, "?")
}

// plainCause takes gRPC's own words off the reason why there is no connection.
func plainCause(s string) string {
	if _, cause, ok := strings.Cut(s, "transport: Error while dialing: "); ok {
		return strings.TrimSuffix(cause, `"`)
	}
	return s
}

// fromStatus is what a call of node returned, as an *Error; nil stays nil. What the
// caller's ctx ended is its error.
func fromStatus(ctx context.Context, node string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, munge.ErrNoMunge) || errors.Is(err, munge.ErrUnsealed) {
		return &Error{Kind: ErrRefused, Text: err.Error(), Node: node}
	}
	st, ok := status.FromError(err)
	if !ok {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return &Error{Kind: ErrInternal, Text: err.Error()}
	}
	for _, d := range st.Details() {
		p, ok := d.(*Problem)
		if !ok {
			continue
		}
		for _, k := range kinds {
			if k.name == p.GetKind() {
				return &Error{Kind: k.is, Text: p.GetText(), Hint: p.GetHint(), Node: p.GetNode(), Obstacles: p.GetObstacles()}
			}
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	e := &Error{Kind: ErrInternal, Text: fmt.Sprintf("node %s: %s", node, st.Message()), Node: node}
	switch st.Code() {
	case codes.Unavailable:
		e.Kind, e.Text = ErrUnreachable, fmt.Sprintf("node %s: proxyd does not answer: %s", node, plainCause(st.Message()))
	case codes.Unauthenticated:
		e.Kind = ErrRefused
	case codes.DeadlineExceeded:
		e.Kind, e.Text = ErrTimeout, fmt.Sprintf("node %s: no answer in time", node)
	case codes.ResourceExhausted:
		e.Kind = ErrBusy
	case codes.Unimplemented:
		e.Kind, e.Text = ErrUnsupported, fmt.Sprintf("node %s: its proxyd does not know this request; is it of an older version?", node)
	case codes.Canceled:
		return context.Canceled
	}
	return e
}
