// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmrest_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
	"github.com/singularity-slurm/singularity-slurm/slurmrestd-client/slurmresttest"
)

// allVersions runs a test against a fake of each version.
func allVersions(t *testing.T, test func(t *testing.T, s *slurmresttest.Server, c *slurmrest.Client)) {
	for _, r := range recorded {
		t.Run(r.release+"/"+r.version, func(t *testing.T) {
			s := newWorld(t, r.release, r.version)
			c := s.Client(t)
			slurmrest.NoPauses(c)
			test(t, s, c)
		})
	}
}

// requestPaths returns the method and path of each request that the server got, without the pings
// of negotiations.
func requestPaths(s *slurmresttest.Server) []string {
	var all []string
	for _, r := range s.Requests() {
		if !strings.HasSuffix(r.Path, "/ping/") {
			all = append(all, r.Method+" "+r.Path)
		}
	}
	return all
}

func TestNewRefuses(t *testing.T) {
	token := slurmrest.StaticToken("root", "t")
	for _, test := range []struct {
		name string
		cfg  slurmrest.Config
		says string
	}{
		{"no address", slurmrest.Config{}, `address "": want "unix:/path"`},
		{"relative socket", slurmrest.Config{Address: "unix:run/sock"}, "the socket's path is not absolute"},
		{"unknown scheme", slurmrest.Config{Address: "ftp://host", Token: token}, `address "ftp://host": want`},
		{"a path", slurmrest.Config{Address: "http://host:1/slurm", Token: token}, "address"},
		{"a user", slurmrest.Config{Address: "http://me@host:1", Token: token}, "address"},
		{"a name only", slurmrest.Config{Address: "host:6820", Token: token}, "address"},
		{"TCP without a token", slurmrest.Config{Address: "http://host:6820"}, "token: needed for any address but a unix socket"},
		{"unknown version", slurmrest.Config{Address: "unix:/s", Versions: []string{"v0.0.39"}}, `versions: ["v0.0.39"]: want some of v0.0.45, v0.0.42, v0.0.40, v0.0.38`},
		{"no version", slurmrest.Config{Address: "unix:/s", Versions: []string{}}, "versions"},
		{"exit code", slurmrest.Config{Address: "unix:/s", RequeueExit: 256}, "requeue exit 256: want an exit code from 1 to 255"},
		{"signal", slurmrest.Config{Address: "unix:/s", RequeueSignal: "US R2"}, `requeue signal "US R2"`},
		{"user with a line break", slurmrest.Config{Address: "unix:/s", AsUser: "a\nb"}, "not a user name"},
		{"negative", slurmrest.Config{Address: "unix:/s", Timeout: -1}, "cannot be negative"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := slurmrest.New(test.cfg)
			if err == nil || !strings.Contains(err.Error(), test.says) || !strings.HasPrefix(err.Error(), "slurmrest: ") {
				t.Errorf("error %v; want one that says %q", err, test.says)
			}
		})
	}
}

func TestNegotiation(t *testing.T) {
	for _, test := range []struct {
		name   string
		server []string
		client []string
		want   string
	}{
		{"22.05", []string{"v0.0.36", "v0.0.37", "v0.0.38"}, nil, slurmrest.V0038},
		{"23.11 never speaks .39", []string{"v0.0.38", "v0.0.39", "v0.0.40"}, nil, slurmrest.V0040},
		{"24.11", []string{"v0.0.40", "v0.0.41", "v0.0.42"}, nil, slurmrest.V0042},
		{"25.11", []string{"v0.0.41", "v0.0.42", "v0.0.43", "v0.0.44"}, nil, slurmrest.V0042},
		{"26.05", []string{"v0.0.42", "v0.0.43", "v0.0.44", "v0.0.45"}, nil, slurmrest.V0045},
		{"told to be old", []string{"v0.0.42", "v0.0.45"}, []string{slurmrest.V0042, slurmrest.V0040}, slurmrest.V0042},
		{"nothing in common", []string{"v0.0.46"}, nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := slurmresttest.Start(t, slurmresttest.Options{Versions: test.server})
			cfg := s.Config()
			cfg.Versions = test.client
			c, err := slurmrest.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			got, err := c.Version(t.Context())
			if got != test.want {
				t.Errorf("version %q, %v; want %q", got, err, test.want)
			}
			if test.want == "" && (!errors.Is(err, slurmrest.ErrUnsupported) || !strings.Contains(err.Error(), "needs one of v0.0.45")) {
				t.Errorf("error %v; want an UnsupportedError", err)
			}
		})
	}
}

func TestNegotiationIsKept(t *testing.T) {
	s := slurmresttest.Start(t, slurmresttest.Options{})
	c := s.Client(t)
	var wait sync.WaitGroup
	for range 20 {
		wait.Go(func() {
			if _, err := c.Nodes(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	pings := 0
	for _, r := range s.Requests() {
		if strings.HasSuffix(r.Path, "/ping/") {
			pings++
		}
	}
	if pings != 1 {
		t.Errorf("%d pings; want 1 for all", pings)
	}
}

// TestUpgradeBeneath: the server is replaced by another release while the client
// lives. A 404 of the router means that slurmctld was not asked, so even a request that changes
// something is sent again, in the other dialect.
func TestUpgradeBeneath(t *testing.T) {
	s := slurmresttest.Start(t, slurmresttest.Options{Versions: []string{slurmrest.V0038}})
	id := s.AddJob(slurmrest.Job{})
	c := s.Client(t)
	nodes := func(list string) slurmrest.JobUpdate { return slurmrest.JobUpdate{RequiredNodes: &list} }
	for i, version := range []string{slurmrest.V0038, slurmrest.V0045, slurmrest.V0040} {
		s.Serve(version)
		want := fmt.Sprintf("n%d", i)
		if err := c.Update(t.Context(), slurmrest.JobID(id), nodes(want)); err != nil {
			t.Fatalf("Update after the server became %s: %v", version, err)
		}
		if job, _ := s.Job(id); job.RequiredNodes != want {
			t.Errorf("%s: nodes %q; want %q", version, job.RequiredNodes, want)
		}
		if got, _ := c.Version(t.Context()); got != version {
			t.Errorf("version %s; want %s", got, version)
		}
	}
	s.Serve("v0.0.99")
	if _, err := c.Nodes(t.Context()); !errors.Is(err, slurmrest.ErrUnsupported) {
		t.Errorf("error %v; want an UnsupportedError", err)
	}
}

func TestUnreachable(t *testing.T) {
	for name, cfg := range map[string]slurmrest.Config{
		"socket": {Address: "unix:" + filepath.Join(t.TempDir(), "none")},
		"port":   {Address: "http://127.0.0.1:1", Token: slurmrest.StaticToken("root", "t")},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := slurmrest.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			_, err = c.Submit(t.Context(), slurmrest.JobSubmit{Script: "#!/bin/sh"})
			if !errors.Is(err, slurmrest.ErrUnreachable) || errors.Is(err, slurmrest.ErrUncertain) {
				t.Errorf("error %v; want ErrUnreachable", err)
			}
		})
	}
}

// TestRetries: only requests that change nothing are sent again.
func TestRetries(t *testing.T) {
	get := func(t *testing.T, c *slurmrest.Client) error { _, err := c.Nodes(t.Context()); return err }
	post := func(t *testing.T, c *slurmrest.Client) error { return c.Hold(t.Context(), slurmrest.JobID(2)) }
	for _, test := range []struct {
		name  string
		fault slurmresttest.Fault
		ask   func(*testing.T, *slurmrest.Client) error
		want  error // nil: the fault is not noticed
		asked int
	}{
		{"GET, dropped once", slurmresttest.Fault{Path: "/nodes", Drop: true}, get, nil, 2},
		{"GET, dropped for ever", slurmresttest.Fault{Path: "/nodes", Drop: true, Times: 99}, get, slurmrest.ErrUnreachable, 3},
		{"GET, cut in the body", slurmresttest.Fault{Path: "/nodes", Cut: 40}, get, nil, 2},
		{"GET, busy once", slurmresttest.Fault{Path: "/nodes", Slurm: 2103}, get, nil, 2},
		{"GET, busy for ever", slurmresttest.Fault{Path: "/nodes", Slurm: 2103, Times: 99}, get, slurmrest.ErrBusy, 3},
		{"GET, 503", slurmresttest.Fault{Path: "/nodes", Status: 503, Body: "try later"}, get, nil, 2},
		{"GET, 500", slurmresttest.Fault{Path: "/nodes", Status: 500, Body: "broken"}, get, errAny, 1},
		{"GET, refused", slurmresttest.Fault{Path: "/nodes", Slurm: 2002}, get, slurmrest.ErrAccessDenied, 1},
		{"POST, dropped", slurmresttest.Fault{Path: "/job/2", Drop: true}, post, slurmrest.ErrUncertain, 1},
		{"POST, dropped after it was done", slurmresttest.Fault{Path: "/job/2", Drop: true, After: true}, post, slurmrest.ErrUncertain, 1},
		{"POST, cut in the body", slurmresttest.Fault{Path: "/job/2", Cut: 40}, post, slurmrest.ErrUncertain, 1},
		{"POST, busy", slurmresttest.Fault{Path: "/job/2", Slurm: 2103}, post, slurmrest.ErrBusy, 1},
		{"POST, slurmctld's answer was lost", slurmresttest.Fault{Path: "/job/2", Slurm: 1802}, post, slurmrest.ErrUncertain, 1},
		{"POST, slurmctld ended in the middle", slurmresttest.Fault{Path: "/job/2", Slurm: 1000}, post, slurmrest.ErrUncertain, 1},
		{"POST, slurmctld ended before it", slurmresttest.Fault{Path: "/job/2", Status: 500, Body: `{"errors": [{"error_number": -1, "error": "Unspecified error"}]}`}, post, slurmrest.ErrUncertain, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			allVersions(t, func(t *testing.T, s *slurmresttest.Server, c *slurmrest.Client) {
				if _, err := c.Version(t.Context()); err != nil {
					t.Fatal(err)
				}
				s.Fail(test.fault)
				err := test.ask(t, c)
				switch {
				case test.want == nil && err != nil, test.want != nil && err == nil:
					t.Errorf("error %v; want %v", err, test.want)
				case test.want != nil && !errors.Is(test.want, errAny) && !errors.Is(err, test.want):
					t.Errorf("error %v; want one that is %q", err, test.want)
				}
				// net/http itself repeats a GET once on a kept connection.
				if got := requestPaths(s); len(got) < test.asked || len(got) > test.asked+1 || errors.Is(test.want, slurmrest.ErrUncertain) && len(got) > 1 {
					t.Errorf("asked %q; want %d times", got, test.asked)
				}
			})
		})
	}
}

var errAny = errors.New("any error")

// TestKeptConnectionClosed: a caller does not notice that the server closes idle connections.
func TestKeptConnectionClosed(t *testing.T) {
	allVersions(t, func(t *testing.T, s *slurmresttest.Server, c *slurmrest.Client) {
		for range 10 {
			if _, err := c.Nodes(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.DropConnections()
			if err := c.Hold(t.Context(), slurmrest.JobID(2)); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestDeadlines(t *testing.T) {
	allVersions(t, func(t *testing.T, s *slurmresttest.Server, c *slurmrest.Client) {
		if _, err := c.Version(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		s.Fail(slurmresttest.Fault{Slow: time.Minute, Times: 99})
		if _, err := c.Nodes(ctx); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, slurmrest.ErrUncertain) {
			t.Errorf("GET: error %v; want the deadline's", err)
		}
		for wait := 30 * time.Millisecond; ; wait *= 2 { // the request has to be sent within that time
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			err := c.Hold(ctx, slurmrest.JobID(2))
			cancel()
			if errors.Is(err, context.DeadlineExceeded) && errors.Is(err, slurmrest.ErrUncertain) {
				break
			}
			if wait > time.Minute || !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("POST: error %v; want the deadline's, and uncertain", err)
			}
		}
	})
	t.Run("a default", func(t *testing.T) {
		s := slurmresttest.Start(t, slurmresttest.Options{})
		s.Fail(slurmresttest.Fault{Slow: time.Minute, Times: 99})
		cfg := s.Config()
		cfg.Timeout = 20 * time.Millisecond
		c, err := slurmrest.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Nodes(context.Background()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v; want the deadline's", err)
		}
	})
}

// TestErrorTable: each number has a single meaning, and the table has the numbers that callers
// depend on.
func TestErrorTable(t *testing.T) {
	table := slurmrest.ErrorTable()
	for number, want := range map[int]error{
		1007: slurmrest.ErrAuth, 1900: slurmrest.ErrNoChange, 2002: slurmrest.ErrAccessDenied,
		2014: slurmrest.ErrNodeConfig, 2017: slurmrest.ErrInvalidJobID, 2018: slurmrest.ErrInvalidNodeName,
		2020: slurmrest.ErrTransition, 2021: slurmrest.ErrAlreadyDone, 2024: slurmrest.ErrJobPending,
		2037: slurmrest.ErrDisabled, 2039: slurmrest.ErrBatchOnly, 2042: slurmrest.ErrJobHeld,
		2073: slurmrest.ErrJobNotPending, 2084: slurmrest.ErrJobFinished, 2103: slurmrest.ErrBusy,
	} {
		if !errors.Is(table[number], want) {
			t.Errorf("%d means %v; want %v", number, table[number], want)
		}
		s := slurmresttest.Start(t, slurmresttest.Options{})
		s.Fail(slurmresttest.Fault{Path: "/nodes", Slurm: number, Times: 9})
		c := s.Client(t)
		slurmrest.NoPauses(c)
		_, err := c.Nodes(t.Context())
		var e *slurmrest.Error
		if !errors.Is(err, want) || !errors.As(err, &e) || e.Number != number || e.Status != 200 {
			t.Errorf("%d: error %v; want one that is %q", number, err, want)
		}
		if slurmrest.Retryable(err) != (number == 2103 || number == 2020) {
			t.Errorf("error %d: Retryable = %v", number, slurmrest.Retryable(err))
		}
	}
}
