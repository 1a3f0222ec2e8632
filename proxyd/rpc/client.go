// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge"
)

// Port is where proxyd listens unless told otherwise.
const Port = "6830"

// maxMessage bounds a message of a reply: replies to dumps are the largest. Requests are bounded by the gate.
const maxMessage = 16 << 20

// Deadlines of calls with a context that has no deadline. Streams get no deadline: how long they
// take depends on the job, and keepalives tell when the other side is gone.
const (
	shortDeadline = 30 * time.Second
	longDeadline  = 2 * time.Minute
)

// Client asks a node's proxyd. A Client is safe for concurrent use. Errors of its methods are
// *Error, or ctx's.
type Client struct {
	node string
	conn *munge.Conn
	rpc  ProxydClient
}

// Dial returns a client of the proxyd of node, which listens at address ("n1:6830"). from is the
// node of the caller. Dial sends no packets: the first call connects, and a call after a connection
// broke connects again.
func Dial(node, address, from string, coder munge.Coder) (*Client, error) {
	retry := backoff.DefaultConfig
	retry.MaxDelay = 3 * time.Second // a node that was rebooted is wanted back at once
	conn, err := munge.Dial(address, node, from, coder,
		grpc.WithKeepaliveParams(munge.KeepAlive),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: retry, MinConnectTimeout: 5 * time.Second}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		return nil, err
	}
	return &Client{node: node, conn: conn, rpc: NewProxydClient(conn)}, nil
}

// Node returns the name of the node that is asked.
func (c *Client) Node() string { return c.node }

// Close ends the connection and the calls that are under way.
func (c *Client) Close() error { return c.conn.Close() }

// Ping asks which proxyd answers. For daemons.
func (c *Client) Ping(ctx context.Context) (*PingReply, error) {
	return callUnary(ctx, c, shortDeadline, c.rpc.Ping, &PingRequest{})
}

// PingHealth asks which proxyd answers, and for the health of its node, which a proxyd of an older release does not
// tell. For daemons.
func (c *Client) PingHealth(ctx context.Context) (*PingReply, error) {
	return callUnary(ctx, c, shortDeadline, c.rpc.Ping, &PingRequest{Health: true})
}

// Call has a node do its part in an operation, such as a checkpoint, that another node leads. For
// daemons. ctx should have the deadline of the caller's step; the other side sees that deadline too.
func (c *Client) Call(ctx context.Context, req *CallRequest) (*CallReply, error) {
	return callUnary(ctx, c, 0, c.rpc.Call, req)
}

// Doctor asks for the node's features, and for the features that are missing.
func (c *Client) Doctor(ctx context.Context) (*DoctorReply, error) {
	return callUnary(ctx, c, longDeadline, c.rpc.Doctor, &DoctorRequest{})
}

// Show asks for the description of a job.
func (c *Client) Show(ctx context.Context, job string) (*Job, error) {
	return callUnary(ctx, c, shortDeadline, c.rpc.Show, &ShowRequest{Job: job})
}

// Checkpoints lists the checkpoints of a job, or with "" all that the caller may see.
func (c *Client) Checkpoints(ctx context.Context, job string) ([]*Checkpoint, error) {
	reply, err := c.ListCheckpoints(ctx, job)
	return reply.GetCheckpoints(), err
}

// ListCheckpoints is Checkpoints, with the number that is kept of each job.
func (c *Client) ListCheckpoints(ctx context.Context, job string) (*CheckpointsReply, error) {
	return callUnary(ctx, c, longDeadline, c.rpc.Checkpoints, &CheckpointsRequest{Job: job})
}

// Checkpoint makes a checkpoint of a running job. progress may be nil, and is called from the
// caller's goroutine. Cancelling ctx ends the attempt, and the job runs on.
func (c *Client) Checkpoint(ctx context.Context, req *CheckpointRequest, progress func(*Progress)) (*Checkpoint, error) {
	stream, err := c.rpc.Checkpoint(ctx, req)
	last, err := readProgress(ctx, c, stream, err, progress)
	if err == nil && last.GetCheckpoint() == nil {
		err = c.missingResult()
	}
	return last.GetCheckpoint(), err
}

// RunOn has a job run on that stands still after a checkpoint.
func (c *Client) RunOn(ctx context.Context, job string) error {
	_, err := callUnary(ctx, c, longDeadline, c.rpc.RunOn, &RunOnRequest{Job: job})
	return err
}

// Lend gives a running job so many GPUs in all, lent by jobs of the same user.
func (c *Client) Lend(ctx context.Context, req *LendRequest) (*LendReply, error) {
	return callUnary(ctx, c, longDeadline, c.rpc.Lend, req)
}

// Verify reads checkpoints back; with no names, all that the caller may see. Damage is in
// the report. progress as in Checkpoint.
func (c *Client) Verify(ctx context.Context, checkpoints []string, progress func(*Progress)) (*VerifyReport, error) {
	stream, err := c.rpc.Verify(ctx, &VerifyRequest{Checkpoints: checkpoints})
	last, err := readProgress(ctx, c, stream, err, progress)
	if err == nil && last.GetVerified() == nil {
		err = c.missingResult()
	}
	return last.GetVerified(), err
}

// GC deletes old checkpoints and the chunks that no checkpoint needs. For operators. progress as in
// Checkpoint.
func (c *Client) GC(ctx context.Context, req *GCRequest, progress func(*Progress)) (*GCReport, error) {
	stream, err := c.rpc.GC(ctx, req)
	last, err := readProgress(ctx, c, stream, err, progress)
	if err == nil && last.GetCollected() == nil {
		err = c.missingResult()
	}
	return last.GetCollected(), err
}

// Delete deletes checkpoints, and returns their whole names: all are deleted or none, unless the
// store fails in between.
func (c *Client) Delete(ctx context.Context, checkpoints []string) ([]string, error) {
	reply, err := callUnary(ctx, c, longDeadline, c.rpc.Delete, &DeleteRequest{Checkpoints: checkpoints})
	return reply.GetDeleted(), err
}

// Export hands the files of a checkpoint to put, piece by piece. The files can be trusted only if
// Export returns nil. An error of put ends the export and is returned.
func (c *Client) Export(ctx context.Context, checkpoint string, put func(*ExportPiece) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.rpc.Export(ctx, &ExportRequest{Checkpoint: checkpoint})
	if err != nil {
		return fromStatus(ctx, c.node, err)
	}
	for {
		piece, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fromStatus(ctx, c.node, err)
		}
		if err := put(piece); err != nil {
			return err
		}
	}
}

// callUnary makes a call with a single reply; within 0 leaves the deadline to ctx.
func callUnary[Q, R any](ctx context.Context, c *Client, within time.Duration, f munge.Unary[Q, R], req *Q) (*R, error) {
	reply, err := munge.Call(ctx, within, f, req)
	return reply, fromStatus(ctx, c.node, err)
}

// readProgress reads a stream to its end and returns the last message, which may be nil.
func readProgress(ctx context.Context, c *Client, stream grpc.ServerStreamingClient[Progress], err error, progress func(*Progress)) (*Progress, error) {
	if err != nil {
		return nil, fromStatus(ctx, c.node, err)
	}
	var last *Progress
	for {
		p, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return last, nil
		case err != nil:
			return nil, fromStatus(ctx, c.node, err)
		}
		if last = p; progress != nil && p.GetResult() == nil {
			progress(p)
		}
	}
}

func (c *Client) missingResult() error {
	return &Error{Kind: ErrInternal, Text: "node " + c.node + ": proxyd ended the reply without a result", Node: c.node}
}
