// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/kind"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge/mungetest"
)

// TestErrorsTravel sends an error of each kind there and back.
func TestErrorsTravel(t *testing.T) {
	seen := make(map[string]bool)
	for _, k := range contract.Rows {
		if seen[k.Name] {
			t.Errorf("kind %s is there twice", k.Name)
		}
		seen[k.Name] = true
		sent := fmt.Errorf("job 812: commit: %w", k.Kind)
		got := fromStatus(t.Context(), "n1", Status(sent))
		if !errors.Is(got, k.Kind) || got.Error() != sent.Error() {
			t.Errorf("%s: sent %v, got %v", k.Name, sent, got)
		}
		for _, other := range contract.Rows {
			if other.Name != k.Name && errors.Is(got, other.Kind) {
				t.Errorf("%s arrived as %s too", k.Name, other.Name)
			}
		}
	}
}

func TestErrorsTravelWhole(t *testing.T) {
	sent := &Error{Kind: ErrObstacle, Text: "job 812: no", Hint: "close it", Node: "n2", Obstacles: []*Obstacle{{Program: "batch", Pid: 7, What: "a terminal"}}}
	var got *Error
	if !errors.As(fromStatus(t.Context(), "n1", Status(fmt.Errorf("leader: %w", sent))), &got) {
		t.Fatal("no *Error arrived")
	}
	if got.Text != "leader: job 812: no" || got.Hint != "close it" || got.Node != "n2" || len(got.Obstacles) != 1 || got.Obstacles[0].GetWhat() != "a terminal" {
		t.Errorf("the error arrived as %+v, want text, hint, node and obstacle as sent", got)
	}
}

func TestErrorsOfAllShapes(t *testing.T) {
	long := strings.Repeat("ä", 4000)
	for _, tt := range []struct {
		name string
		sent error
		kind error
		want string
	}{
		{"plain", errors.New("boom"), ErrInternal, "boom"},
		{"long", errors.New(long), ErrInternal, strings.Repeat("ä", 1024) + " …"},
		{"not UTF-8", errors.New("a\xffb"), ErrInternal, "a?b"},
		{"deadline", fmt.Errorf("dump: %w", context.DeadlineExceeded), ErrTimeout, "timed out: dump: context deadline exceeded"},
		{"cancelled", fmt.Errorf("dump: %w", context.Canceled), context.Canceled, "context canceled"},
		{"bad obstacle", &Error{Kind: ErrObstacle, Text: "no", Obstacles: []*Obstacle{{What: "\xff"}}}, ErrInternal, "node n1: no"},
		{"no munge", status.Error(codes.Unavailable, munge.ErrNoMunge.Error()+": no socket"), ErrUnreachable, "node n1: proxyd cannot read credentials, for munge does not work there: no socket"},
		{"unavailable", status.Error(codes.Unavailable, "connection refused"), ErrUnreachable, "node n1: proxyd does not answer: connection refused"},
		{"unauthenticated", status.Error(codes.Unauthenticated, "credential refused: used before"), ErrRefused, "node n1: credential refused: used before"},
		{"old server", status.Error(codes.Unimplemented, "unknown method"), ErrUnsupported, "node n1: proxyd does not know this request; is it of an older version?"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := fromStatus(t.Context(), "n1", Status(tt.sent))
			if !errors.Is(got, tt.kind) || got.Error() != tt.want {
				t.Errorf("got  %v\nwant %s", got, tt.want)
			}
		})
	}
	if Status(nil) != nil || fromStatus(t.Context(), "n1", nil) != nil {
		t.Error("nil did not stay nil")
	}
}

// TestManyObstacles: a status travels in headers, which have a limit.
func TestManyObstacles(t *testing.T) {
	e := &Error{Kind: ErrObstacle, Text: "no"}
	for range 500 {
		e.Obstacles = append(e.Obstacles, &Obstacle{Program: "batch", What: strings.Repeat("x", 100)})
	}
	var got *Error
	if !errors.As(fromStatus(t.Context(), "n1", Status(e)), &got) || len(got.Obstacles) != maxObstacles {
		t.Errorf("%d obstacles arrived, want maxObstacles", len(got.Obstacles))
	}
	if len(e.Obstacles) != 500 {
		t.Error("the sender's own error was changed")
	}
}

func TestNobodyThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	c, err := Dial("n1", address, "n2", mungetest.NewRealm().As(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Ping(t.Context()); !errors.Is(err, ErrUnreachable) || !strings.HasPrefix(err.Error(), "node n1: proxyd does not answer: ") {
		t.Errorf("Ping of a node without proxyd: %v; want ErrUnreachable", err)
	}
	if _, err := c.Checkpoint(t.Context(), &CheckpointRequest{Job: "812"}, nil); !errors.Is(err, ErrUnreachable) {
		t.Errorf("Checkpoint on a node without proxyd: %v; want ErrUnreachable", err)
	}
	if err := c.Export(t.Context(), "812/1", nil); !errors.Is(err, ErrUnreachable) {
		t.Errorf("Export from a node without proxyd: %v; want ErrUnreachable", err)
	}
	relay, err := DialRelay(address, "n2", mungetest.NewRealm().As(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	defer relay.Close()
	if err := relay.Forget(t.Context(), "812"); !errors.Is(err, ErrUnreachable) || !strings.HasPrefix(err.Error(), "the relay does not answer at "+address+": dial") {
		t.Errorf("Forget by a relay that is away: %v; want ErrUnreachable", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	if _, err := c.Ping(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Ping past its deadline: %v", err)
	}
}

// TestSilentNode: a listener that accepts and never answers holds a caller up until the deadline,
// no longer.
func TestSilentNode(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := Dial("n1", l.Addr().String(), "n2", mungetest.NewRealm().As(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := c.Ping(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Ping of a silent node: %v; want DeadlineExceeded", err)
	}
}

// TestCauseStays: the error of a call has the cause on the client's side.
func TestCauseStays(t *testing.T) {
	got := fromStatus(t.Context(), "n1", fmt.Errorf("seal: %w", munge.ErrNoMunge))
	if !errors.Is(got, ErrRefused) || !errors.Is(got, munge.ErrNoMunge) {
		t.Errorf("error of a call without munge: %v, want ErrRefused and ErrNoMunge", got)
	}
	relay := &RelayAsker{address: "relay:6833"}
	got = relay.nameRelay(fromStatus(t.Context(), RelayName, status.Error(codes.Unavailable, "proxyd does not answer: refused")))
	if want := "the relay does not answer at relay:6833: proxyd does not answer: refused"; !errors.Is(got, ErrUnreachable) || got.Error() != want {
		t.Errorf("error of a relay that is away: %q, want %q", got, want)
	}
}

// TestKindsOfOlderRelease: a client that does not know the kinds of answers takes such an answer for an internal error
// with the same text, as before there were these kinds.
func TestKindsOfOlderRelease(t *testing.T) {
	older := contract
	older.Rows = nil
	for _, row := range contract.Rows {
		if row.Name != "transient" && row.Name != "lasting" && row.Name != "given_up" {
			older.Rows = append(older.Rows, row)
		}
	}
	for _, sent := range []error{ErrTransient, ErrLasting, ErrGivenUp} {
		f, ended := older.ReadStatus(t.Context(), kind.Peer{Name: "node n1"}, Status(fmt.Errorf("restore: %w", sent)))
		if want := "node n1: restore: " + sent.Error(); ended != nil || !errors.Is(f.Kind, ErrInternal) || f.Text != want {
			t.Errorf("%v arrived as %+v, %v; want %q and ErrInternal", sent, f, ended, want)
		}
	}
}
