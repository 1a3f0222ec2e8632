// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/outside"
	"github.com/singularity-slurm/singularity-slurm/proxyd/relay/connections"
	"github.com/singularity-slurm/singularity-slurm/proxyd/relay/stream"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// noUser is the user of the invented job of askRelay: a user without jobs.
const noUser = 65534

// askRelay makes a connection as a job does, up to the point where the relay would connect to the other side. There the
// relay refuses, because no host has the address.
func (n *node) askRelay(ctx context.Context) error {
	relay, err := n.dialRelay()
	if err != nil || relay == nil {
		return err
	}
	return tryRelay(ctx, relay, n.cluster.Cluster+"/doctor/"+n.cfg.NodeName+"/"+rand.Text())
}

// tryRelay connects through the relay under the name of a job that does not exist, so no real job's connections are
// touched.
func tryRelay(ctx context.Context, relay outside.Relay, job string) (err error) {
	ticket := rand.Text()
	admitted, err := relay.Admit(ctx, &rpc.AdmitRequest{Job: job, Uid: noUser, Ticket: connections.HashTicket(ticket)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, relay.Forget(ctx, job)) }()
	address := admitted.Address
	link, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("its port for connections: %w", err)
	}
	defer link.Close()
	end, ok := ctx.Deadline()
	if !ok {
		end = time.Now().Add(time.Minute)
	}
	if err := link.SetDeadline(end); err != nil {
		return err
	}
	if err := stream.WriteJSON(link, stream.KindHello, stream.Hello{Ticket: ticket, ID: rand.Text(), To: "127.0.0.1:9"}); err != nil {
		return fmt.Errorf("its port for connections: %w", err)
	}
	answer, err := stream.ReadFrame(link)
	if err != nil {
		return fmt.Errorf("its port for connections: %w", err)
	}
	var over stream.ConnectionEnd
	if answer.Kind != stream.KindOver {
		return fmt.Errorf("%s is another relay: it connects to itself", address)
	}
	if err := answer.Parse(&over); err != nil {
		return err
	}
	if over.Retry {
		return fmt.Errorf("%s is another relay: %s", address, over.Reason)
	}
	return nil
}
