// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"google.golang.org/grpc"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge"
)

// RelayName is the name of a site's relay in credentials, where others have that of a node.
const RelayName = "relay"

// NewRelayServer returns a gRPC server that hands requests which passed the gate to impl. The caller serves and
// stops it.
func NewRelayServer(gate *munge.CredentialCheck, impl RelayServer) *grpc.Server {
	server := grpc.NewServer(append(gate.ServerOptions(), munge.ServerLimits(64<<10)...)...)
	gate.Register(server, &Relay_ServiceDesc, impl)
	return server
}

// RelayAsker asks the site's relay. It is safe for concurrent use. Errors of its methods are *Error, or ctx's.
type RelayAsker struct {
	address string
	host    string // of address
	c       *Client
	rpc     RelayClient
}

// DialRelay returns a client of the relay at address ("relay.example:6833"). from is the node of the caller.
// The first call connects.
func DialRelay(address, from string, coder munge.Coder) (*RelayAsker, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	c, err := Dial(RelayName, address, from, coder)
	if err != nil {
		return nil, err
	}
	return &RelayAsker{address: address, host: host, c: c, rpc: NewRelayClient(c.conn)}, nil
}

// Close ends the connection and the calls that are under way.
func (r *RelayAsker) Close() error { return r.c.Close() }

// AdmittedCapsule is a relay's answer about a capsule that it has admitted.
type AdmittedCapsule struct {
	Address   string       // to which connections are carried
	Reachable []*Reachable // of the ports that clients shall reach
}

// Admit has the relay take connections of a capsule.
func (r *RelayAsker) Admit(ctx context.Context, req *AdmitRequest) (AdmittedCapsule, error) {
	reply, err := callUnary(ctx, r.c, shortDeadline, r.rpc.Admit, req)
	if err != nil {
		return AdmittedCapsule{}, r.nameRelay(err)
	}
	at := func(port uint32) string { return net.JoinHostPort(r.host, strconv.FormatUint(uint64(port), 10)) }
	a := AdmittedCapsule{Address: at(reply.GetPort())}
	for _, l := range reply.GetListening() {
		p := &Reachable{Port: l.GetPort(), Problem: l.GetProblem()}
		if l.GetPublic() != 0 {
			p.At = at(l.GetPublic())
		}
		a.Reachable = append(a.Reachable, p)
	}
	return a, nil
}

// Forget ends the connections of a job that is over.
func (r *RelayAsker) Forget(ctx context.Context, job string) error {
	_, err := callUnary(ctx, r.c, shortDeadline, r.rpc.Forget, &ForgetRequest{Job: job})
	return r.nameRelay(err)
}

// nameRelay returns the error of a call. If the relay does not answer, the text names the relay instead of a node's
// proxyd.
func (r *RelayAsker) nameRelay(err error) error {
	var e *Error
	if !errors.Is(err, ErrUnreachable) || !errors.As(err, &e) {
		return err
	}
	text := fmt.Sprintf("the relay does not answer at %s: %v", r.address, e.cause)
	return &Error{Kind: ErrUnreachable, Text: text, Node: RelayName, cause: e.cause}
}
