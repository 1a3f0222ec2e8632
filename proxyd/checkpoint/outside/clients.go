// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package outside

import (
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
	"github.com/singularity-slurm/singularity-slurm/proxyd/overlay"
	"github.com/singularity-slurm/singularity-slurm/proxyd/relay/connections"
	"github.com/singularity-slurm/singularity-slurm/proxyd/relay/forward"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// admitCapsule has the relay admit the capsule, and notes where clients reach its ports.
func (f *Forwarder) admitCapsule(ctx context.Context, relay Relay, a Admission) (rpc.AdmittedCapsule, error) {
	req := &rpc.AdmitRequest{
		Job: a.Job, Uid: f.spec.UID, Run: uint32(a.Run), Capsule: uint32(a.Capsule), Ticket: connections.HashTicket(f.note.Ticket), Connections: f.note.Names,
	}
	for _, port := range f.spec.Clients.Ports {
		req.Listen = append(req.Listen, uint32(port))
	}
	admitted, err := relay.Admit(ctx, req)
	if err != nil {
		return admitted, err
	}
	admitted.Reachable = completeReachable(f.spec.Clients.Ports, admitted.Reachable)
	f.mu.Lock()
	same := slices.EqualFunc(f.reachable, admitted.Reachable, func(a, b *rpc.Reachable) bool { return proto.Equal(a, b) })
	f.reachable = admitted.Reachable
	f.mu.Unlock()
	if !same && a.Changed != nil {
		a.Changed(admitted.Reachable)
	}
	return admitted, nil
}

// completeReachable adds the ports that the relay has not reported: a relay of an older release knows no clients.
func completeReachable(ports []uint16, said []*rpc.Reachable) []*rpc.Reachable {
	for _, port := range ports {
		if !slices.ContainsFunc(said, func(r *rpc.Reachable) bool { return r.GetPort() == uint32(port) }) {
			said = append(said, &rpc.Reachable{Port: uint32(port), Problem: "the site's relay says nothing of it: it may be of an older release"})
		}
	}
	return said
}

// firstPatience bounds the wait for the relay before the programs of a job begin that clients shall reach.
const firstPatience = 10 * time.Second

// AdmitFirst has the relay admit the capsule before its programs begin, so that they can be told where clients reach them. An
// error does no harm: Serve goes on asking.
func (f *Forwarder) AdmitFirst(ctx context.Context, relay Relay, a Admission) error {
	ctx, cancel := context.WithTimeout(ctx, firstPatience)
	defer cancel()
	_, err := f.admitCapsule(ctx, relay, a)
	return err
}

// Reachable returns where clients reach ports of the capsule, as the relay said last.
func (f *Forwarder) Reachable() []*rpc.Reachable {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reachable
}

// pauseLook is the time between looks whether programs have accepted their clients, and pausePatience bounds the wait for that.
const (
	pauseLook     = 20 * time.Millisecond
	pausePatience = time.Second
)

// PauseClients has the forwarder connect no more clients to programs, until Continue, and waits until the programs have
// accepted the clients that are connected: CRIU cannot dump a connection that is not accepted. A program that does not
// accept is named by the dump. Programs run meanwhile.
func (f *Forwarder) PauseClients(ctx context.Context) error {
	if len(f.spec.Clients.Ports) == 0 {
		return nil
	}
	if err := f.sendOrder(ctx, func(ctx context.Context, o forward.Orders) error { return o.Pause(ctx) }); err != nil {
		return err
	}
	end := time.After(pausePatience)
	for {
		waits, err := overlay.HasUnaccepted(f.spec.Init, f.spec.Clients.Ports)
		if err != nil || !waits {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-end:
			return nil
		case <-time.After(pauseLook):
		}
	}
}

// supplySockets gives the forwarder as many sockets for clients as it wants. The forwarder runs with the user's ids, so
// the number that it wants is bounded here.
func (f *Forwarder) supplySockets(ctx context.Context, wanted int) error {
	sockets, err := overlay.ClientSockets(f.spec.Init, min(wanted, forward.MaxSockets))
	if err != nil {
		return err
	}
	defer localsock.CloseAll(sockets)
	return f.sendOrder(ctx, func(ctx context.Context, o forward.Orders) error { return o.Supply(ctx, sockets) })
}
