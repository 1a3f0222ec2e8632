// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package slurmresttest is a slurmrestd for tests: jobs and nodes in memory, served in every version of the
// REST API that package slurmrest knows, with failures to order. There is no scheduler: a job starts,
// settles or ends only when the test says so.
//
// Its answers have the shapes of real ones: a test of package slurmrest compares them with
// recordings from live clusters.
package slurmresttest

import (
	"bytes"
	"encoding/json"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// Options describe the server. The zero value is a 26.05 that trusts its unix socket.
type Options struct {
	// Versions are the versions that the server serves; nil: the versions of Release.
	Versions []string
	// Release of Slurm: "22.05.8", "24.11.5" or "26.05.3", the default.
	Release string
	// Cluster is its name; default "fake".
	Cluster string
	// TCP makes the server listen on 127.0.0.1 instead of a unix socket. Then each request must have Token, if
	// that is set.
	TCP   bool
	Token string
	// Now is slurmctld's clock; nil: time.Now.
	Now func() time.Time
}

// servedBy has the versions that each release serves and the client knows.
var servedBy = map[string][]string{
	"22.05.8": {slurmrest.V0038},
	"24.11.5": {slurmrest.V0040, slurmrest.V0042},
	"26.05.3": {slurmrest.V0042, slurmrest.V0045},
}

// Server is a fake slurmrestd with its slurmctld, safe for concurrent use.
type Server struct {
	opt  Options
	addr string
	http *httptest.Server

	mu           sync.Mutex
	versions     []string
	nextID       int64
	jobs         map[int64]*slurmrest.Job
	signals      map[int64][]string
	onSignal     func(id int64, signal string)
	nodes        []slurmrest.Node
	partitions   []slurmrest.Partition
	qos          []slurmrest.QOS
	reservations []slurmrest.Reservation
	lastChange   time.Time
	faults       []Fault
	requests     []Request
}

// Request is a request that the server got.
type Request struct {
	Method string
	Path   string
	Query  string
	User   string // X-SLURM-USER-NAME
	Body   string
}

// Start runs a server until the test ends.
func Start(tb testing.TB, opt Options) *Server {
	tb.Helper()
	fillDefaults(&opt)
	s := &Server{
		opt:      opt,
		versions: opt.Versions,
		nextID:   1,
		jobs:     map[int64]*slurmrest.Job{},
		signals:  map[int64][]string{},
	}
	s.lastChange = s.currentTime()
	s.http = httptest.NewUnstartedServer(s)
	if opt.TCP {
		s.http.Start()
		s.addr = s.http.URL
	} else {
		s.listenUnix(tb)
	}
	tb.Cleanup(s.http.Close)
	return s
}

func fillDefaults(opt *Options) {
	if opt.Release == "" {
		opt.Release = "26.05.3"
	}
	if opt.Cluster == "" {
		opt.Cluster = "fake"
	}
	if opt.Versions == nil {
		opt.Versions = servedBy[opt.Release]
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
}

// listenUnix makes a socket in a folder with a short name: its path may have no more
// than 107 bytes, which a test's own folder can exceed.
func (s *Server) listenUnix(tb testing.TB) {
	dir, err := os.MkdirTemp("", "rest")
	if err != nil {
		tb.Fatalf("fake slurmrestd: %v", err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		tb.Fatalf("fake slurmrestd: %v", err)
	}
	s.http.Listener.Close()
	s.http.Listener = listener
	s.http.Start()
	s.addr = "unix:" + path
}

// Config returns the configuration with which slurmrest.New reaches the server.
func (s *Server) Config() slurmrest.Config {
	cfg := slurmrest.Config{Address: s.addr}
	if s.opt.TCP {
		cfg.Token = slurmrest.StaticToken("root", s.opt.Token)
	}
	return cfg
}

// Client returns a client of the server, closed when the test ends.
func (s *Server) Client(tb testing.TB) *slurmrest.Client {
	tb.Helper()
	c, err := slurmrest.New(s.Config())
	if err != nil {
		tb.Fatalf("fake slurmrestd: %v", err)
	}
	tb.Cleanup(c.Close)
	return c
}

// Serve changes the versions that the server knows, as an upgrade would.
func (s *Server) Serve(versions ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.versions = versions
}

// DropConnections closes every connection that is idle now, as an old slurmrestd
// does at any moment.
func (s *Server) DropConnections() { s.http.CloseClientConnections() }

// Requests returns the requests that the server has got so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

func (s *Server) currentTime() time.Time { return s.opt.Now() }

// object is a JSON object.
type object = map[string]any

// writeAnswer answers with JSON, laid out over lines by the releases before 26.05.
func (s *Server) writeAnswer(w http.ResponseWriter, status int, answer object) {
	raw, err := json.Marshal(answer)
	if err == nil && s.opt.Release < "26.05" {
		var b bytes.Buffer
		err = json.Indent(&b, raw, "", "  ")
		raw = b.Bytes()
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(raw)
}

// jobsInOrder returns all jobs by id. Caller holds s.mu.
func (s *Server) jobsInOrder() []*slurmrest.Job {
	var all []*slurmrest.Job
	for _, id := range slices.Sorted(maps.Keys(s.jobs)) {
		all = append(all, s.jobs[id])
	}
	return all
}
