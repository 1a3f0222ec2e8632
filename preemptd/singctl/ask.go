// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// connectTimeout is how long a node may take to accept a connection when any other would do.
const connectTimeout = 2 * time.Second

// callLeader calls f with the daemon that leads the job, and the job's name; while the job
// runs nowhere, any daemon will do, for all see the shared folder.
func (a *app) callLeader(ctx context.Context, typed string, f func(*rpc.Client, string) error) error {
	j, err := a.slurm.findJob(ctx, typed)
	if err != nil {
		return err
	}
	if len(a.nodes) > 0 || j.node == "" {
		return a.callAnyDaemon(ctx, func(c *rpc.Client) error { return f(c, j.name) })
	}
	leader, err := a.slurm.nodeAddress(ctx, j.node)
	if err != nil {
		return err
	}
	err = a.callNode(leader, func(c *rpc.Client) error { return f(c, j.name) })
	var e *rpc.Error
	if errors.As(err, &e) && errors.Is(err, rpc.ErrNotLeader) && e.Node != "" && e.Node != leader.name {
		// The job was moved between the two questions.
		if leader, err = a.slurm.nodeAddress(ctx, e.Node); err != nil {
			return err
		}
		err = a.callNode(leader, func(c *rpc.Client) error { return f(c, j.name) })
	}
	return err
}

// askLeaderOrAny is callLeader, but where the node that leads the job does not answer, the daemon of any other node is
// asked: the leader may be dead, and every node knows the job's past.
func (a *app) askLeaderOrAny(ctx context.Context, typed string, f func(*rpc.Client, string) error) error {
	err := a.callLeader(ctx, typed, f)
	var silent *rpc.Error
	if !errors.As(err, &silent) || !errors.Is(err, rpc.ErrUnreachable) || silent.Node == "" || len(a.nodes) > 0 {
		return err
	}
	if a.callAnyDaemon(ctx, func(c *rpc.Client) error { return f(c, typed) }) != nil {
		return err
	}
	fmt.Fprintf(a.stderr, "node %s does not answer: this is what the other nodes know\n", safeLine(silent.Node))
	return nil
}

// callAnyDaemon calls f with the daemon of the node that the user named, else of this node, else
// of the first that accepts a connection.
func (a *app) callAnyDaemon(ctx context.Context, f func(*rpc.Client) error) error {
	if len(a.nodes) > 1 {
		return rpc.Errorf(rpc.ErrInvalid, "--node: want one node, got %s", strings.Join(a.nodes, ", "))
	}
	if len(a.nodes) == 1 {
		n, err := a.slurm.nodeAddress(ctx, a.nodes[0])
		if err != nil {
			return err
		}
		return a.callNode(n, f)
	}
	names, err := a.slurm.nodeNames(ctx, true)
	if err != nil {
		return err
	}
	for i, name := range names {
		if name == a.here {
			names[0], names[i] = names[i], names[0]
		}
	}
	const nodesToAsk = 5 // a cluster without any proxyd is told soon
	for _, name := range names[:min(nodesToAsk, len(names))] {
		n, err := a.slurm.nodeAddress(ctx, name)
		if err != nil {
			return err
		}
		address, err := a.addressOf(n)
		if err != nil {
			return err
		}
		if acceptsConnections(ctx, address) {
			return a.callNode(n, f)
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &rpc.Error{Kind: rpc.ErrUnreachable, Text: "no proxyd answers on " + strings.Join(names[:min(nodesToAsk, len(names))], ", ")}
}

// addressOf is where a node's daemon listens. The port may have come from the environment.
func (a *app) addressOf(n node) (string, error) {
	if port, err := strconv.ParseUint(a.port, 10, 16); err != nil || port == 0 {
		return "", rpc.Errorf(rpc.ErrInvalid, "port %.40q: --port, or else SINGULARITY_SLURM_PORT, wants a number from 1 to 65535", a.port)
	}
	return net.JoinHostPort(n.address, a.port), nil
}

// callNode calls f with a node's daemon.
func (a *app) callNode(n node, f func(*rpc.Client) error) error {
	address, err := a.addressOf(n)
	if err != nil {
		return err
	}
	c, err := rpc.Dial(n.name, address, a.here, a.coder)
	if err != nil {
		return err
	}
	defer c.Close()
	return f(c)
}

func acceptsConnections(ctx context.Context, address string) bool {
	d := net.Dialer{Timeout: connectTimeout}
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// hostName returns this node's name, as Slurm usually names the node; "" if it has no name.
func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	short, _, _ := strings.Cut(name, ".")
	return short
}
