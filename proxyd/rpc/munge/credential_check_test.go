// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package munge_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge/mungetest"
)

// eachRealm runs a test with the realm in memory, and with real munge where there is one.
func eachRealm(t *testing.T, f func(t *testing.T, as func(uid, gid uint32) munge.Coder)) {
	t.Run("realm", func(t *testing.T) { f(t, mungetest.NewRealm().As) })
	t.Run("munge", func(t *testing.T) { f(t, mungetest.Start(t).As) })
}

func TestCalls(t *testing.T) {
	eachRealm(t, func(t *testing.T, as func(uid, gid uint32) munge.Coder) {
		s := &service{}
		address := startServer(t, &munge.CredentialCheck{Node: "n1", Coder: as(0, 0)}, s)
		c := dialServer(t, address, "n1", as(1001, 1002))
		reply, err := c.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "a"})
		if err != nil || reply.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Errorf("Check = %v, %v; want SERVING", reply, err)
		}
		if n, err := readStream(t.Context(), c, "b"); n != 3 || err != nil {
			t.Errorf("stream of %d messages, %v; want 3", n, err)
		}
		if _, err := c.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "fail"}); status.Code(err) != codes.NotFound ||
			status.Convert(err).Message() != "no such service: ? bad text" {
			t.Errorf("Check of an unknown service: %v; want NotFound", err)
		}
		if n, err := readStream(t.Context(), c, "fail"); n != 3 || status.Code(err) != codes.DataLoss {
			t.Errorf("failing stream of %d messages, %v; want 3 and DataLoss", n, err)
		}
		if len(s.callers) != 4 {
			t.Fatalf("%d calls reached the service, want 4", len(s.callers))
		}
		for _, got := range s.callers {
			if want := (munge.Caller{UID: 1001, GID: 1002, From: "n9"}); got != want {
				t.Errorf("caller %+v, want %+v", got, want)
			}
		}
	})
}

// TestRefused sends requests that no server should accept. The service must not get them, and the caller is told why.
func TestRefused(t *testing.T) {
	eachRealm(t, func(t *testing.T, as func(uid, gid uint32) munge.Coder) {
		s := &service{}
		address := startServer(t, &munge.CredentialCheck{Node: "n1", Coder: as(0, 0)}, s)
		cc := rawDial(t, address)
		alice := as(1001, 1001)
		encode := func(payload []byte) string {
			c, err := alice.Encode(t.Context(), payload)
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		request := requestFor("a")
		with := func(change func(map[string]any)) string { return encode(makeTicket(check, "n1", request, change)) }
		set := func(key string, value any) func(map[string]any) {
			return func(t map[string]any) { t[key] = value }
		}
		tests := []struct {
			name        string
			credentials []string
			request     []byte
			want        string
		}{
			{"no credential", nil, request, "credential refused: 0 credentials, want one"},
			{"two credentials", []string{with(nil), with(nil)}, request, "credential refused: 2 credentials, want one"},
			{"no munge credential", []string{"Bearer 7"}, request, "credential refused: not a munge credential"},
			{"for another node", []string{encode(makeTicket(check, "n2", request, nil))}, request, `credential refused: made for another: for node "n2", this is "n1"`},
			{"for another call", []string{encode(makeTicket(watch, "n1", request, nil))}, request, `credential refused: made for another: for "/grpc.health.v1.Health/Watch"`},
			{"changed request", []string{with(nil)}, requestFor("b"), "credential refused: request was changed on its way"},
			{"longer request", []string{with(nil)}, append(requestFor("a"), 0x10, 0), "credential refused: request was changed on its way"},
			{"no request", []string{with(nil)}, nil, "credential refused: request was changed on its way"},
			{"wrong size", []string{with(set("size", 4))}, request, "credential refused: request was changed on its way"},
			{"negative size", []string{with(set("size", -1))}, request, "credential refused: its payload is no ticket"},
			{"payload of someone else's", []string{encode([]byte("hello"))}, request, "credential refused: its payload is no ticket"},
			{"empty payload", []string{encode(nil)}, request, "credential refused: its payload is no ticket"},
			{"version of tomorrow", []string{with(set("version", 3))}, request, "credential refused: ticket of version 3, this is version 2"},
			{"sent again to a daemon that has just begun", []string{with(set("version", 2))}, request, "credential refused: sent again, and the daemon began after it was first sent"},
			{"sent again before it was sent", []string{with(set("age_ms", -1))}, request, "credential refused: its payload is no ticket"},
			{"short nonce", []string{with(set("nonce", []byte("x")))}, request, "credential refused: its payload is no ticket"},
			{"short key", []string{with(set("key", []byte("x")))}, request, "credential refused: its payload is no ticket"},
			{"no digest", []string{with(set("digest", nil))}, request, "credential refused: its payload is no ticket"},
		}
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				err := rawCall(t.Context(), cc, check, tt.request, tt.credentials...)
				if status.Code(err) != codes.Unauthenticated || status.Convert(err).Message() != tt.want {
					t.Errorf("got  %v\nwant %s", err, tt.want)
				}
			})
		}
		if n := s.countCalls(); n != 0 {
			t.Errorf("%d requests reached the service: %q", n, s.asked)
		}
	})
}

func TestReplay(t *testing.T) {
	eachRealm(t, func(t *testing.T, as func(uid, gid uint32) munge.Coder) {
		s := &service{}
		cc := rawDial(t, startServer(t, &munge.CredentialCheck{Node: "n1", Coder: as(0, 0)}, s))
		request := requestFor("a")
		c, err := as(1001, 1001).Encode(t.Context(), makeTicket(check, "n1", request, nil))
		if err != nil {
			t.Fatal(err)
		}
		if err := rawCall(t.Context(), cc, check, request, c); err != nil {
			t.Fatal(err)
		}
		err = rawCall(t.Context(), cc, check, request, c)
		if status.Code(err) != codes.Unauthenticated || !strings.Contains(err.Error(), "used before") || s.countCalls() != 1 {
			t.Errorf("the credential's second use: %v, the service was reached %d times", err, s.countCalls())
		}
	})
}

// TestReplayAfterRestart: a credential is refused the second time, although munged has forgotten it by a restart.
func TestReplayAfterRestart(t *testing.T) {
	realm := mungetest.NewRealm()
	s := &service{}
	cc := rawDial(t, startServer(t, &munge.CredentialCheck{Node: "n1", Coder: realm.As(0, 0)}, s))
	request := requestFor("a")
	c, err := realm.As(1001, 1001).Encode(t.Context(), makeTicket(check, "n1", request, nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := rawCall(t.Context(), cc, check, request, c); err != nil {
		t.Fatal(err)
	}
	realm.Restart()
	err = rawCall(t.Context(), cc, check, request, c)
	if status.Code(err) != codes.Unauthenticated || !strings.Contains(err.Error(), "used before") || s.countCalls() != 1 {
		t.Errorf("the credential's second use: %v, the service was reached %d times", err, s.countCalls())
	}
}

// TestLongLived: munge lets a user ask for a credential that is valid for an hour. Such a credential could be used again
// after the CredentialCheck has forgotten that it was used.
func TestLongLived(t *testing.T) {
	realm := mungetest.NewRealm()
	s := &service{}
	cc := rawDial(t, startServer(t, &munge.CredentialCheck{Node: "n1", Coder: patient{realm.As(0, 0)}}, s))
	request := requestFor("a")
	c, err := realm.As(1001, 1001).Encode(t.Context(), makeTicket(check, "n1", request, nil))
	if err != nil {
		t.Fatal(err)
	}
	err = rawCall(t.Context(), cc, check, request, c)
	if status.Convert(err).Message() != "credential refused: valid for 1h0m0s, at most 5m0s is accepted" || s.countCalls() != 0 {
		t.Errorf("a credential that is valid for an hour: %v; want a refusal", err)
	}
}

type patient struct{ munge.Coder }

func (p patient) Decode(ctx context.Context, credential string) (*munge.Credential, error) {
	c, err := p.Coder.Decode(ctx, credential)
	if c != nil {
		c.TTL = time.Hour
	}
	return c, err
}

func TestLimits(t *testing.T) {
	realm := mungetest.NewRealm()
	s := &service{hold: make(chan struct{})}
	check := &munge.CredentialCheck{Node: "n1", Coder: realm.As(0, 0), Limits: func(c munge.Caller) munge.Limits {
		if c.UID == 0 {
			return munge.Limits{Bytes: 1 << 20}
		}
		return munge.Limits{Bytes: 100, Calls: 2}
	}}
	address := startServer(t, check, s)
	alice, bob, root := dialServer(t, address, "n1", realm.As(1001, 1001)), dialServer(t, address, "n1", realm.As(1002, 1002)), dialServer(t, address, "n1", realm.As(0, 0))
	ask := func(c grpc_health_v1.HealthClient, name string) error {
		_, err := c.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: name})
		return err
	}
	if err := ask(alice, strings.Repeat("x", 200)); status.Code(err) != codes.ResourceExhausted ||
		!strings.Contains(err.Error(), "request of 203 bytes, at most 100 are accepted") {
		t.Errorf("a request of 203 bytes: %v; want a refusal", err)
	}
	ended := make(chan error, 4)
	started := func(n int) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); s.countCalls() < n; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("only %d requests arrived", s.countCalls())
			}
		}
	}
	for range 2 {
		go func() { ended <- ask(alice, "a") }()
	}
	started(2)
	if err := ask(alice, "a"); status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "user 1001 has 2 requests under way") {
		t.Errorf("third request of a user with two under way: %v; want a refusal", err)
	}
	// Other callers are not held up.
	go func() { ended <- ask(bob, "b") }()
	go func() { ended <- ask(root, strings.Repeat("x", 200)) }()
	started(4)
	close(s.hold)
	for range 4 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if err := ask(alice, "a"); err != nil {
		t.Errorf("after the others have ended: %v", err)
	}
}

// TestPieces: a request of any size arrives as it was sent, whether its reply is one message or a stream.
func TestPieces(t *testing.T) {
	realm := mungetest.NewRealm()
	s := &service{}
	check := &munge.CredentialCheck{Node: "n1", Coder: realm.As(0, 0), Limits: func(munge.Caller) munge.Limits { return munge.Limits{Bytes: 2 << 20} }}
	c := dialServer(t, startServer(t, check, s), "n1", realm.As(0, 0))
	const piece = 256 << 10
	for _, n := range []int{0, 1, piece - 5, piece - 4, piece - 3, 2*piece - 4, 1 << 20} { // four bytes are the field's
		name := strings.Repeat("x", n)
		if _, err := c.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: name}); err != nil || s.asked[len(s.asked)-1] != name {
			t.Errorf("one reply, %d bytes: %v", n, err)
		}
		if got, err := readStream(t.Context(), c, name); got != 3 || err != nil || s.asked[len(s.asked)-1] != name {
			t.Errorf("stream with a request of %d bytes: %d messages, %v; want 3", n, got, err)
		}
	}
	if _, err := c.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: strings.Repeat("x", 4<<20)}); status.Code(err) != codes.ResourceExhausted ||
		!strings.Contains(err.Error(), "at most 2097152 are accepted") {
		t.Errorf("a request of 4 MiB: %v; want a refusal", err)
	}
}

// TestMoreThanSaid: a peer that announces a small request and sends a large request is not read.
func TestMoreThanSaid(t *testing.T) {
	realm := mungetest.NewRealm()
	s := &service{}
	cc := rawDial(t, startServer(t, &munge.CredentialCheck{Node: "n1", Coder: realm.As(0, 0)}, s))
	credential := func(size int) string {
		c, err := realm.As(1001, 1001).Encode(t.Context(), makeTicket(check, "n1", requestFor("a"), func(t map[string]any) { t["size"] = size }))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	err := rawCall(t.Context(), cc, check, make([]byte, 1<<20), credential(3))
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "larger than max") {
		t.Errorf("a request of 1 MiB in one message: %v; want a refusal", err)
	}
	for name, pieces := range map[string][]int{"much": {2, 100}, "nothing": {2, 0}, "an end": {2}} {
		if err := rawPieces(t.Context(), cc, credential(3), pieces); status.Convert(err).Message() != "credential refused: request was changed on its way" {
			t.Errorf("a request with more pieces than announced (%s): %v", name, err)
		}
	}
	if n := s.countCalls(); n != 0 {
		t.Errorf("%d requests reached the service", n)
	}
}

// rawPieces sends messages of these sizes in a single call, and leaves the call open unless there is a single message.
func rawPieces(ctx context.Context, cc *grpc.ClientConn, credential string, sizes []int) error {
	md := metadata.Pairs("singularity-credential", credential)
	stream, err := cc.NewStream(metadata.NewOutgoingContext(ctx, md), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, check)
	if err != nil {
		return err
	}
	for _, n := range sizes {
		b := make([]byte, n)
		if err := stream.SendMsg(&b); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	if len(sizes) == 1 {
		if err := stream.CloseSend(); err != nil {
			return err
		}
	}
	var reply []byte
	return stream.RecvMsg(&reply)
}

// BenchmarkCall is a request and its reply with real munge, over loopback.
func BenchmarkCall(b *testing.B) {
	m := mungetest.Start(b)
	c := dialServer(b, startServer(b, &munge.CredentialCheck{Node: "n1", Coder: m.As(0, 0)}, &service{}), "n1", m.As(0, 0))
	for b.Loop() {
		if _, err := c.Check(b.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
			b.Fatal(err)
		}
	}
}
