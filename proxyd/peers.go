// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
)

// peers are the proxyds of other nodes. A connection is made when it is first needed, and kept.
type peers struct {
	n     *node
	slurm *slurm.Slurm

	mu    sync.Mutex
	known map[string]*rpc.Client
}

func newPeers(n *node, s *slurm.Slurm) *peers {
	return &peers{n: n, slurm: s, known: map[string]*rpc.Client{}}
}

var _ checkpoint.NodeCaller = (*peers)(nil)

// Call implements checkpoint.NodeCaller.
func (p *peers) Call(ctx context.Context, node string, req *rpc.CallRequest) (*rpc.CallReply, error) {
	c, err := p.openClient(ctx, node)
	if err != nil {
		return nil, err
	}
	reply, err := c.Call(ctx, req)
	if errors.Is(err, rpc.ErrUnreachable) {
		err = describeAway(node, err)
	}
	return reply, err
}

// describeAway returns the error of a call to a node's daemon that does not answer.
func describeAway(node string, err error) error {
	return &awayError{strings.TrimPrefix(err.Error(), "node "+node+": "), err}
}

// awayError is the error of a call to a daemon that does not answer. Its text does not name the node, which the conductor
// does.
type awayError struct {
	text string
	err  error
}

func (e *awayError) Error() string { return e.text }

// Unwrap makes the error checkpoint.ErrAway for errors.Is.
func (e *awayError) Unwrap() []error { return []error{checkpoint.ErrAway, e.err} }

func (p *peers) openClient(ctx context.Context, node string) (*rpc.Client, error) {
	p.mu.Lock()
	c := p.known[node]
	p.mu.Unlock()
	if c != nil {
		return c, nil
	}
	at, err := p.slurm.Address(ctx, node)
	if err != nil {
		return nil, err
	}
	c, err = rpc.Dial(node, net.JoinHostPort(at, p.n.cfg.Port()), p.n.cfg.NodeName, munge.Programs{Socket: p.n.cfg.MungeSocket})
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if other := p.known[node]; other != nil {
		c.Close()
		return other, nil
	}
	p.known[node] = c
	return c, nil
}

func (p *peers) closeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.known {
		c.Close()
	}
}
