// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge"
)

// Row gives a kind of error its name on the wire and its gRPC code.
type Row struct {
	Name string // on the wire; never changed
	Kind error
	Code codes.Code
}

// Problem is the message of a contract that describes an error in the details of a status.
type Problem interface {
	protoadapt.MessageV1
	GetKind() string
	GetText() string
	GetHint() string
}

// Contract is the table by which the errors of a gRPC service travel.
type Contract struct {
	// Rows lists the kinds. An error that wraps several kinds travels as the first of them; an error that
	// wraps no kind travels as the last row.
	Rows []Row
	// Unreachable is the kind of a call that no daemon answered, Unsupported the kind of a call that the
	// daemon does not know.
	Unreachable, Unsupported error
}

// Status returns the status that a server sends for err; nil stays nil, and a status passes unchanged.
// describe makes the contract's message from the name of the kind and the text of the error.
func (c Contract) Status(err error, describe func(err error, kind, text string) Problem) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	if errors.Is(err, context.Canceled) {
		return status.Error(codes.Canceled, ClipText(err.Error()))
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", ErrTimeout, err)
	}
	row := c.findRow(err)
	text := ClipText(err.Error())
	st, problem := status.New(row.Code, text).WithDetails(describe(err, row.Name, text))
	if problem != nil { // a string of the message is not UTF-8
		return status.Error(row.Code, text)
	}
	return st.Err()
}

func (c Contract) findRow(err error) Row {
	for _, row := range c.Rows {
		if errors.Is(err, row.Kind) {
			return row
		}
	}
	return c.Rows[len(c.Rows)-1]
}

// maxText bounds a text, in bytes: a status travels in headers, and gRPC drops headers that are too long.
const maxText = 2 << 10

// ClipText returns s cut to maxText and as valid UTF-8, as a status needs its text.
func ClipText(s string) string {
	if len(s) > maxText {
		s = s[:maxText] + " …"
	}
	return strings.ToValidUTF8(s, "?")
}

// Peer names the daemon that was called, for messages. Name is "node n1" or "preemptd at ctl:6831"; Daemon is
// the subject of a sentence about the daemon itself.
type Peer struct{ Name, Daemon string }

// Failure is the error of a call, as the client gets it.
type Failure struct {
	Kind    error
	Text    string
	Problem Problem // the server's description; nil if the client made the text
	// Cause is the error on the client's side: of munge, or of the connection to a daemon that does not answer. nil
	// for all other failures.
	Cause error
}

// ReadStatus returns the failure for err, an error that a call of the peer has returned. If ctx ended the
// call, ReadStatus returns nil and ctx's error. err must not be nil.
func (c Contract) ReadStatus(ctx context.Context, peer Peer, err error) (*Failure, error) {
	if errors.Is(err, munge.ErrNoMunge) || errors.Is(err, munge.ErrUnsealed) {
		return &Failure{Kind: ErrRefused, Text: err.Error(), Cause: err}, nil
	}
	st, ok := status.FromError(err)
	if ok {
		if f := c.readDetails(st); f != nil {
			return f, nil
		}
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case !ok:
		return &Failure{Kind: ErrInternal, Text: err.Error()}, nil
	}
	return c.readCode(peer, st), nil
}

// readDetails returns the failure that a status describes in its details, or nil.
func (c Contract) readDetails(st *status.Status) *Failure {
	for _, d := range st.Details() {
		p, ok := d.(Problem)
		if !ok {
			continue
		}
		for _, row := range c.Rows {
			if row.Name == p.GetKind() {
				return &Failure{Kind: row.Kind, Text: p.GetText(), Problem: p}
			}
		}
	}
	return nil
}

// noMunge begins the message of a daemon on a host without a munge that works; package munge has the words.
const noMunge = "munge does not work on this node"

// readCode returns the failure for the code of a status without details, which gRPC itself made, or the
// server's check of the credential.
func (c Contract) readCode(peer Peer, st *status.Status) *Failure {
	switch st.Code() {
	case codes.Unavailable:
		if why, isMunge := strings.CutPrefix(st.Message(), noMunge); isMunge { // the daemon answers, and cannot tell its caller
			return &Failure{Kind: c.Unreachable, Text: peer.Daemon + " cannot read credentials, for munge does not work there" + why, Cause: errors.New(st.Message())}
		}
		cause := errors.New(plainCause(st.Message()))
		return &Failure{Kind: c.Unreachable, Text: fmt.Sprintf("%s does not answer: %v", peer.Daemon, cause), Cause: cause}
	case codes.Unauthenticated:
		return &Failure{Kind: ErrRefused, Text: peer.Name + ": " + st.Message()}
	case codes.DeadlineExceeded:
		return &Failure{Kind: ErrTimeout, Text: peer.Name + ": no answer in time"}
	case codes.ResourceExhausted:
		return &Failure{Kind: ErrBusy, Text: peer.Name + ": " + st.Message()}
	case codes.Unimplemented:
		return &Failure{Kind: c.Unsupported, Text: peer.Daemon + " does not know this request; is it of an older version?"}
	}
	return &Failure{Kind: ErrInternal, Text: peer.Name + ": " + st.Message()}
}

// plainCause removes gRPC's wording from the reason of a failed connection.
func plainCause(s string) string {
	if _, cause, ok := strings.Cut(s, "transport: Error while dialing: "); ok {
		return strings.TrimSuffix(cause, `"`)
	}
	return s
}
