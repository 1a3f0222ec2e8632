// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package munge_test

import (
	"errors"
	"io"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge/mungetest"
)

// reply is an answer on its way.
type reply struct {
	messages [][]byte
	err      error
	trailer  metadata.MD
}

// startAttacker starts an attacker that stands between client and server and changes answers.
func startAttacker(t *testing.T, server string, change func(*reply)) string {
	t.Helper()
	cc := rawDial(t, server)
	s := grpc.NewServer(grpc.ForceServerCodecV2(rawCodec{}), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		method, _ := grpc.MethodFromServerStream(stream)
		md, _ := metadata.FromIncomingContext(stream.Context())
		var request []byte
		if err := stream.RecvMsg(&request); err != nil {
			return err
		}
		forward, err := cc.NewStream(metadata.NewOutgoingContext(stream.Context(), metadata.MD{"singularity-credential": md["singularity-credential"]}),
			&grpc.StreamDesc{ServerStreams: true}, method)
		if err != nil {
			return err
		}
		if err := errors.Join(forward.SendMsg(&request), forward.CloseSend()); err != nil {
			return err
		}
		var r reply
		for {
			var b []byte
			if r.err = forward.RecvMsg(&b); r.err != nil {
				break
			}
			r.messages = append(r.messages, b)
		}
		if errors.Is(r.err, io.EOF) {
			r.err = nil
		}
		r.trailer = forward.Trailer()
		change(&r)
		for _, b := range r.messages {
			if err := stream.SendMsg(&b); err != nil {
				return err
			}
		}
		stream.SetTrailer(metadata.MD{"singularity-seal-bin": r.trailer["singularity-seal-bin"]})
		return r.err
	}))
	return listenAndServe(t, s)
}

// TestForgedReplies: the client accepts no answer that an attacker between client and server has changed.
func TestForgedReplies(t *testing.T) {
	realm := mungetest.NewRealm()
	server := startServer(t, &munge.CredentialCheck{Node: "n1", Coder: realm.As(0, 0)}, &service{})
	tests := []struct {
		name   string
		ask    string
		change func(*reply)
	}{
		{"another message", "a", func(r *reply) { r.messages[0] = []byte{8, 2} }},
		{"an empty message", "a", func(r *reply) { r.messages[0] = nil }},
		{"an error instead", "a", func(r *reply) { r.messages, r.err = nil, status.Error(codes.NotFound, "no") }},
		{"success instead", "fail", func(r *reply) {
			r.err = nil
			if r.messages == nil {
				r.messages = [][]byte{{8, 1}}
			}
		}},
		{"another text", "fail", func(r *reply) { r.err = status.Error(status.Code(r.err), "all is well") }},
		{"no seal", "a", func(r *reply) { r.trailer = nil }},
		{"an empty seal", "a", func(r *reply) { r.trailer = metadata.Pairs("singularity-seal-bin", "") }},
		{"another seal", "a", func(r *reply) { r.trailer["singularity-seal-bin"][0] = string(make([]byte, 32)) }},
	}
	streaming := []struct {
		name   string
		change func(*reply)
	}{
		{"end is missing", func(r *reply) { r.messages = r.messages[:2] }},
		{"one twice", func(r *reply) { r.messages = append(r.messages, r.messages[2]) }},
		{"another order", func(r *reply) { r.messages[0], r.messages[1] = r.messages[1], r.messages[0] }},
		{"two joined", func(r *reply) { r.messages = [][]byte{append(r.messages[0], r.messages[1]...), r.messages[2]} }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := dialServer(t, startAttacker(t, server, tt.change), "n1", realm.As(1001, 1001))
			if reply, err := c.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: tt.ask}); !errors.Is(err, munge.ErrUnsealed) {
				t.Errorf("Check = %v, %v; want ErrUnsealed", reply, err)
			}
			if _, err := readStream(t.Context(), c, tt.ask); !errors.Is(err, munge.ErrUnsealed) {
				t.Errorf("stream: %v; want ErrUnsealed", err)
			}
		})
	}
	for _, tt := range streaming {
		t.Run(tt.name, func(t *testing.T) {
			c := dialServer(t, startAttacker(t, server, tt.change), "n1", realm.As(1001, 1001))
			if n, err := readStream(t.Context(), c, "a"); !errors.Is(err, munge.ErrUnsealed) {
				t.Errorf("stream of %d messages, %v; want ErrUnsealed", n, err)
			}
		})
	}
	t.Run("nothing", func(t *testing.T) {
		c := dialServer(t, startAttacker(t, server, func(*reply) {}), "n1", realm.As(1001, 1001))
		if n, err := readStream(t.Context(), c, "a"); n != 3 || err != nil {
			t.Errorf("unchanged stream of %d messages, %v; want 3", n, err)
		}
		if _, err := c.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "fail"}); status.Code(err) != codes.NotFound {
			t.Errorf("Check of an unknown service: %v; want NotFound", err)
		}
	})
}

// TestImpostor: a process that listens on the port without being root of this cluster cannot answer
// in the place of a daemon.
func TestImpostor(t *testing.T) {
	ours, theirs := mungetest.NewRealm(), mungetest.NewRealm()
	other := dialServer(t, startServer(t, &munge.CredentialCheck{Node: "n1", Coder: theirs.As(0, 0)}, &service{}), "n1", ours.As(1001, 1001))
	if _, err := other.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("daemon of another cluster: %v", err)
	}
	plain := grpc.NewServer(grpc.ForceServerCodecV2(rawCodec{}), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		var b []byte
		if err := stream.RecvMsg(&b); err != nil {
			return err
		}
		yes := []byte{8, 1}
		return stream.SendMsg(&yes)
	}))
	c := dialServer(t, listenAndServe(t, plain), "n1", ours.As(1001, 1001))
	if _, err := c.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); !errors.Is(err, munge.ErrUnsealed) || err.Error() != "node n1: "+munge.ErrUnsealed.Error() {
		t.Errorf("Check by a server without a check: %v; want ErrUnsealed", err)
	}
}
