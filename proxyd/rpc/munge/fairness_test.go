// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package munge_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge/mungetest"
)

// slowMunge decodes few credentials at a time, and credentials of users only after answer is
// closed.
type slowMunge struct {
	munge.Coder
	threads chan struct{} // as many as munged has
	answer  chan struct{}

	mu           sync.Mutex
	inside, most int // unmunge processes, now and at most
}

func (s *slowMunge) countProcess(change int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inside += change
	s.most = max(s.most, s.inside)
	return s.most
}

func (s *slowMunge) Decode(ctx context.Context, credential string) (*munge.Credential, error) {
	s.countProcess(1)
	defer s.countProcess(-1)
	select {
	case s.threads <- struct{}{}:
		defer func() { <-s.threads }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	c, err := s.Coder.Decode(ctx, credential)
	if err != nil || c.UID == 0 {
		return c, err
	}
	select {
	case <-s.answer:
		return c, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TestFairness: a user's requests, on many connections, have taken all places that they may have. A daemon's call is
// served meanwhile, and the user's calls afterwards.
func TestFairness(t *testing.T) {
	const connections, each, processes = 30, 4, 8
	realm := mungetest.NewRealm()
	slow := &slowMunge{Coder: realm.As(0, 0), threads: make(chan struct{}, processes), answer: make(chan struct{})}
	check := &munge.CredentialCheck{Node: "n1", Coder: slow, Limits: func(c munge.Caller) munge.Limits {
		if c.UID == 0 {
			return munge.Limits{Bytes: 1 << 20}
		}
		return munge.Limits{Bytes: 1 << 20, Calls: connections * each}
	}}
	var arrived atomic.Int32
	server := grpc.NewServer(append(check.ServerOptions(), grpc.StreamInterceptor(
		func(impl any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
			arrived.Add(1)
			return handle(impl, stream)
		}))...)
	check.Register(server, &grpc_health_v1.Health_ServiceDesc, &service{})
	address := listenAndServe(t, server)
	daemon := dialServer(t, address, "n1", realm.As(0, 0))
	ask := func(c grpc_health_v1.HealthClient) error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := c.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		return err
	}
	if err := ask(daemon); err != nil { // the credential check knows the connection from now on
		t.Fatal(err)
	}
	ended := make(chan error, connections*each)
	for range connections {
		alice := dialServer(t, address, "n1", realm.As(1001, 1001))
		for range each {
			go func() {
				_, err := alice.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
				ended <- err
			}()
		}
	}
	const strangers = 6 // that the credential check lets munged be asked for at once
	deadline := time.Now().Add(time.Minute)
	for arrived.Load() < 1+connections*each || slow.countProcess(0) < strangers {
		if time.Now().After(deadline) {
			t.Fatalf("%d requests arrived, and %d processes decode", arrived.Load(), slow.countProcess(0))
		}
		time.Sleep(time.Millisecond)
	}
	for range 3 {
		if err := ask(daemon); err != nil {
			t.Fatalf("a daemon's call while a user's wait: %v", err)
		}
	}
	if n := slow.countProcess(0); n > processes {
		t.Errorf("%d processes at once, want at most %d", n, processes)
	}
	close(slow.answer)
	for range connections * each {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
