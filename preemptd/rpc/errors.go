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
	// ErrNoJob says that Slurm knows no such job.
	ErrNoJob = errors.New("no such job")
	// ErrNoAction says that there is no such action.
	ErrNoAction = errors.New("no such action")
	// ErrDenied says that the caller may not do this.
	ErrDenied = errors.New("not permitted")
	// ErrBusy says that an action on the job is under way, or that the caller asks too much
	// at a time.
	ErrBusy = errors.New("already under way")
	// ErrSlurm says that Slurm does not answer preemptd.
	ErrSlurm = errors.New("Slurm does not answer") //nolint:staticcheck // a name
	// ErrTimeout says that a deadline passed.
	ErrTimeout = errors.New("timed out")
	// ErrUnsupported says that this preemptd does not know the request.
	ErrUnsupported = errors.New("unsupported")
	// ErrUnreachable says that no preemptd answered. Only clients make it.
	ErrUnreachable = errors.New("preemptd does not answer")
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
	{"no_action", ErrNoAction, codes.NotFound},
	{"busy", ErrBusy, codes.Aborted},
	{"slurm", ErrSlurm, codes.FailedPrecondition},
	{"timeout", ErrTimeout, codes.DeadlineExceeded},
	{"internal", ErrInternal, codes.Internal},
}

// Error is an error with its kind. A client returns nothing else.
type Error struct {
	Kind error  // one of those above
	Text string // the whole message; "": that of Kind
	Hint string // what the person may do
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
		return status.Error(codes.Canceled, clipText(err.Error()))
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
	p := &Problem{Kind: row.name, Text: clipText(err.Error())}
	var e *Error
	if errors.As(err, &e) {
		p.Hint = clipText(e.Hint)
	}
	st, problem := status.New(row.code, p.Text).WithDetails(p)
	if problem != nil {
		return status.Error(row.code, p.Text)
	}
	return st.Err()
}

// maxText bounds what travels in headers, which have a limit.
const maxText = 2 << 10

func clipText(s string) string {
	if len(s) > maxText {
		s = s[:maxText] + " …"
	}
	return strings.ToValidUTF8(s, "?")
}

// fromStatus is what a call returned, as an *Error; nil stays nil. What the caller's ctx
// ended is its error.
func (c *Client) fromStatus(ctx context.Context, err error) error {
	if errors.Is(err, munge.ErrNoMunge) || errors.Is(err, munge.ErrUnsealed) {
		return &Error{Kind: ErrRefused, Text: err.Error()}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	st, ok := status.FromError(err)
	if !ok {
		return &Error{Kind: ErrInternal, Text: err.Error()}
	}
	for _, d := range st.Details() {
		p, ok := d.(*Problem)
		if !ok {
			continue
		}
		for _, k := range kinds {
			if k.name == p.GetKind() {
				return &Error{Kind: k.is, Text: p.GetText(), Hint: p.GetHint()}
			}
		}
	}
	switch said := st.Message(); st.Code() {
	case codes.Unavailable:
		_, cause, dialled := strings.Cut(said, "transport: Error while dialing: ")
		if dialled {
			said = strings.TrimSuffix(cause, `"`)
		}
		return Errorf(ErrUnreachable, "preemptd at %s does not answer: %s", c.address, said)
	case codes.Unauthenticated:
		return Errorf(ErrRefused, "preemptd at %s: %s", c.address, said)
	case codes.DeadlineExceeded:
		return Errorf(ErrTimeout, "preemptd at %s: no answer in time", c.address)
	case codes.ResourceExhausted:
		return Errorf(ErrBusy, "preemptd at %s: %s", c.address, said)
	case codes.Unimplemented:
		return Errorf(ErrUnsupported, "preemptd at %s does not know this request; is it of an older version?", c.address)
	default:
		return Errorf(ErrInternal, "preemptd at %s: %s", c.address, said)
	}
}
