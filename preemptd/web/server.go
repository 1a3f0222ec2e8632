// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"embed"
	"io/fs"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/preemptd/gputime"
	"github.com/singularity-slurm/singularity-slurm/preemptd/journal"
	"github.com/singularity-slurm/singularity-slurm/preemptd/rpc"
)

//go:embed page
var embedded embed.FS

// Journal is the part of the journal that the page uses. *journal.Journal is a Journal.
type Journal interface {
	Unfinished(ctx context.Context) ([]journal.Action, error)
	History(ctx context.Context, job int64, most int) ([]journal.Action, error)
	Events(ctx context.Context, job int64, most int) ([]journal.Event, error)
	Mandate(ctx context.Context) (journal.Mandate, error)
}

// Requests carries out people's requests, as the user that munge.CallerOf returns. *api.Server is a
// Requests.
type Requests interface {
	Who(ctx context.Context) (name string, operator bool, err error)
	Act(ctx context.Context, req *rpc.ActRequest) (*rpc.Action, error)
	Show(ctx context.Context, req *rpc.ShowRequest) (*rpc.Action, error)
	Status(ctx context.Context, req *rpc.StatusRequest) (*rpc.StatusReply, error)
	History(ctx context.Context, req *rpc.HistoryRequest) (*rpc.HistoryReply, error)
}

// Role says whether this preemptd works.
type Role string

// The roles.
const (
	Starts Role = "starts" // waits for slurmrestd, or for the journal
	Waits  Role = "waits"  // another preemptd works
	Works  Role = "works"
	DryRun Role = "dry run" // only shows its decisions
)

// State is how preemptd is now.
type State struct {
	Role     Role
	Holder   string // the preemptd for which this preemptd waits; "": no other
	Cluster  string // "": not known yet
	Interval time.Duration
	Policies func() []*rpc.Policy        // nil: they are not there yet
	Journal  Journal                     // nil: not open yet
	Slurm    func(context.Context) error // asks slurmrestd whether it answers; nil: it never did
	Rights   func(context.Context) error // why Slurm would refuse each action, if it would; nil: not known yet
	Requests Requests                    // nil: people cannot make requests here now
	Useful   func() []gputime.Day        // newest first; nil: no time is counted
	// Proxyds is how the nodes' proxyds are; nil: no node is asked.
	Proxyds func() []Proxyd
	// Checkpoints are those of a job, by its label, oldest first, as the last look found them; nil: there was no look
	// yet.
	Checkpoints func(label string) []Checkpoint
	// Obstacles asks the proxyd that leads a running job for its obstacles. The caller may see the job.
	Obstacles func(ctx context.Context, job int64) ([]Obstacle, error)
}

// Tick is the loop's snapshot and decisions. The snapshot does not change any more.
type Tick struct {
	Snapshot  *sdk.Snapshot
	Decisions []Decision
}

// Options of a server. All must be set but Hosts, Racks and Log.
type Options struct {
	Version string
	State   func() State // called for each request
	Keys    *Keys
	Hosts   []string          // names of this host, besides its own, for plain HTTP
	Racks   map[string]string // of nodes, by name
	// StepWords returns words for a step of an action, for people; nil: the name of the step.
	StepWords func(step string) string
	Log       *slog.Logger
}

// Server serves the page. A Server is safe for concurrent use.
type Server struct {
	opt   Options
	pages fs.FS
	acts  slots // bounds the requests of people that are under way

	headTime time.Duration // bounds the reading of a request's head; the whole request has twice that time

	mu        sync.Mutex
	last      *sdk.Snapshot // nil: no tick yet
	decisions decisions
	lives     jobHistories

	state, cluster, nodes, timeline, past cachedDocument
	slurm, rights                         slurmrestdHealth
}

// New returns a server that has no snapshot yet.
func New(opt Options) *Server {
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	pages, err := fs.Sub(embedded, "page")
	if err != nil {
		panic(err) // the folder is embedded
	}
	return &Server{opt: opt, pages: pages, acts: slots{used: map[uint32]int{}}, headTime: 10 * time.Second, state: cachedDocument{life: time.Second}, nodes: cachedDocument{life: time.Second}, timeline: cachedDocument{life: time.Second}, past: cachedDocument{life: time.Second}}
}

// Tell has the page show a tick.
func (s *Server) Tell(t Tick) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = t.Snapshot
	s.decisions.addTick(t.Snapshot.Number, t.Snapshot.Time, t.Decisions)
	s.lives.recordStates(t.Snapshot)
}

// Forget makes the page show no snapshot before the next tick: another preemptd works, and the last snapshot of this
// preemptd will be old when this preemptd works again.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = nil
}

// currentSnapshot is the newest snapshot, or nil while there is no snapshot to show: a preemptd that waits for
// another does not look at the cluster.
func (s *Server) currentSnapshot(now *State) *sdk.Snapshot {
	if now.Role != Works && now.Role != DryRun {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// Handler answers all requests. Any listener may serve it.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", onlyGet(http.FileServerFS(s.pages)))
	mux.HandleFunc("GET /healthz", serveHealth)
	mux.HandleFunc("GET /readyz", s.serveReady)
	mux.HandleFunc("GET /api/v1/state", s.getState)
	mux.HandleFunc("GET /api/v1/cluster", s.getCluster)
	mux.HandleFunc("GET /api/v1/nodes", s.getNodes)
	mux.HandleFunc("GET /api/v1/timeline", s.getTimeline)
	mux.HandleFunc("GET /api/v1/jobs/{job}", s.getJob)
	mux.HandleFunc("GET /api/v1/jobs/{job}/obstacles", s.withToken(s.getObstacles))
	mux.HandleFunc("GET /api/v1/me", s.withToken(s.getMe))
	mux.HandleFunc("GET /api/v1/actions/{number}", s.withToken(s.getAction))
	mux.HandleFunc("POST /api/v1/jobs/{job}/{verb}", s.withToken(s.postAct))
	mux.HandleFunc("/api/", func(w http.ResponseWriter, _ *http.Request) {
		refuseRequest(w, http.StatusNotFound, refusal{Kind: "invalid", Error: "there is no such request"})
	})
	return limitRequests(onlyKnownHosts(s.opt.Hosts, mux))
}

func onlyGet(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "the page is only read", http.StatusMethodNotAllowed)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// policy lets the page load only its own files, and be in no other page's frame.
const policy = "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// limitRequests bounds the size of a request, and forbids browsers all that the page never does.
func limitRequests(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-cache")
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		next.ServeHTTP(w, r)
	})
}
