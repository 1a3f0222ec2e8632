// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"context"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/preemptd/web"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge"
)

// slow makes the requests of a single user wait until they are let go.
type slow struct {
	web.Requests
	uid     uint32
	arrived chan struct{}
	let     chan struct{}
}

func (s slow) Who(ctx context.Context) (string, bool, error) {
	if c, _ := munge.CallerOf(ctx); c.UID == s.uid {
		s.arrived <- struct{}{}
		<-s.let
	}
	return s.Requests.Who(ctx)
}

// TestBusy: a user with many requests under way is told so; another user is not kept waiting.
func TestBusy(t *testing.T) {
	s := newSite(t)
	one := slow{s.now.Requests, nobody, make(chan struct{}), make(chan struct{})}
	s.changeState(func(now *web.State) { now.Requests = one })
	mine, _ := s.keys.Sign(nobody)
	roots, _ := s.keys.Sign(0)
	const most = 4
	ended := make(chan int, most)
	for range most {
		go func() {
			answer, _ := s.sendRequest("GET", "/api/v1/me", mine, "")
			ended <- answer.StatusCode
		}()
		<-one.arrived
	}
	if answer, body := s.sendRequest("GET", "/api/v1/me", mine, ""); answer.StatusCode != 503 || !strings.Contains(body, "too many of your requests") {
		t.Errorf("a request above the limit: %d %s", answer.StatusCode, body)
	}
	if answer, body := s.sendRequest("GET", "/api/v1/me", roots, ""); answer.StatusCode != 200 {
		t.Errorf("a request of another user: %d %s", answer.StatusCode, body)
	}
	close(one.let)
	for range most {
		if code := <-ended; code != 200 {
			t.Errorf("a request that waited got %d, want 200", code)
		}
	}
	go func() { <-one.arrived }()
	if answer, _ := s.sendRequest("GET", "/api/v1/me", mine, ""); answer.StatusCode != 200 {
		t.Errorf("after them: %d", answer.StatusCode)
	}
}
