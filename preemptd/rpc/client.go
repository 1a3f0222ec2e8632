// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge"
)

const (
	// Port is where preemptd listens unless told otherwise.
	Port = "6831"
	// Name is the name that credentials for preemptd are made for.
	Name = "preemptd"

	// maxReply is the greatest size of a message: a snapshot of a very large cluster travels in both directions.
	maxReply = 64 << 20

	// shortDeadline is for calls with a single reply and a context without a deadline.
	shortDeadline = 30 * time.Second
)

// Client asks preemptd. A Client is safe for concurrent use. Errors of its methods are *Error, or
// ctx's.
type Client struct {
	address string
	conn    *munge.Conn
	rpc     PreemptdClient
}

// Dial returns a client of the preemptd that listens at address ("ctl:6831"). from is the node that asks. The
// connection is made at the first call.
func Dial(address, from string, coder munge.Coder) (*Client, error) {
	conn, err := munge.Dial(address, Name, from, coder, grpc.WithKeepaliveParams(munge.KeepAlive),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxReply)))
	if err != nil {
		return nil, err
	}
	return &Client{address: address, conn: conn, rpc: NewPreemptdClient(conn)}, nil
}

// Close ends the connection and the calls under way; actions go on.
func (c *Client) Close() error { return c.conn.Close() }

// Act has preemptd begin an action on a job, and returns the action.
func (c *Client) Act(ctx context.Context, req *ActRequest) (*Action, error) {
	return callUnary(ctx, c, c.rpc.Act, req)
}

// Show returns an action with all its lines.
func (c *Client) Show(ctx context.Context, id int64) (*Action, error) {
	return callUnary(ctx, c, c.rpc.Show, &ShowRequest{Id: id})
}

// History lists the newest actions, and events by other programs, newest first: of a job, with its present state, or
// with "" of all jobs that the caller may see.
func (c *Client) History(ctx context.Context, job string, limit int32) (*HistoryReply, error) {
	return callUnary(ctx, c, c.rpc.History, &HistoryRequest{Job: job, Limit: limit})
}

// Jobs lists the caller's jobs, or to operators all, as preemptd saw them last.
func (c *Client) Jobs(ctx context.Context) (*JobsReply, error) {
	return callUnary(ctx, c, c.rpc.Jobs, &JobsRequest{})
}

// Status asks how preemptd does.
func (c *Client) Status(ctx context.Context) (*StatusReply, error) {
	return callUnary(ctx, c, c.rpc.Status, &StatusRequest{})
}

// Doctor asks for faults that keep preemptd from doing its work.
func (c *Client) Doctor(ctx context.Context) (*DoctorReply, error) {
	return callUnary(ctx, c, c.rpc.Doctor, &DoctorRequest{})
}

// Token returns the token by which a browser acts as the caller, for a while.
func (c *Client) Token(ctx context.Context) (*TokenReply, error) {
	return callUnary(ctx, c, c.rpc.Token, &TokenRequest{})
}

// Snapshot returns the cluster as policies saw it last.
func (c *Client) Snapshot(ctx context.Context) ([]byte, error) {
	reply, err := callUnary(ctx, c, c.rpc.Snapshot, &SnapshotRequest{})
	return reply.GetSnapshot(), err
}

// Try asks policies for their intents.
func (c *Client) Try(ctx context.Context, req *TryRequest) (*TryReply, error) {
	return callUnary(ctx, c, c.rpc.Try, req)
}

// Watch follows an action to its end, and returns the ended action. progress may be nil; Watch
// calls progress from the caller's goroutine. The action goes on when ctx ends.
func (c *Client) Watch(ctx context.Context, id int64, progress func(*Action)) (*Action, error) {
	stream, err := c.rpc.Watch(ctx, &WatchRequest{Id: id})
	if err != nil {
		return nil, c.fromStatus(ctx, err)
	}
	var last *Action
	for {
		a, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF) && last.GetEnded() == nil:
			return nil, Errorf(ErrInternal, "preemptd at %s ended the reply before action %d had ended", c.address, id)
		case errors.Is(err, io.EOF):
			return last, nil
		case err != nil:
			return nil, c.fromStatus(ctx, err)
		}
		if last = a; progress != nil {
			progress(a)
		}
	}
}

// callUnary makes a call with a single reply.
func callUnary[Q, R any](ctx context.Context, c *Client, f munge.Unary[Q, R], req *Q) (*R, error) {
	reply, err := munge.Call(ctx, shortDeadline, f, req)
	if err != nil {
		return nil, c.fromStatus(ctx, err)
	}
	return reply, nil
}
