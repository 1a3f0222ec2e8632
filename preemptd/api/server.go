// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"google.golang.org/grpc"

	"github.com/singularity-slurm/singularity-slurm/preemptd/action"
	"github.com/singularity-slurm/singularity-slurm/preemptd/journal"
	"github.com/singularity-slurm/singularity-slurm/preemptd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge"
	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// Journal is the part of the journal that the server uses. *journal.Journal is a Journal.
type Journal interface {
	Begin(ctx context.Context, r journal.Request) (journal.Action, error)
	Action(ctx context.Context, id int64) (journal.Action, error)
	Lines(ctx context.Context, id int64) ([]journal.Line, error)
	History(ctx context.Context, job int64, most int) ([]journal.Action, error)
	Unfinished(ctx context.Context) ([]journal.Action, error)
	Origin(ctx context.Context, job int64) (json.RawMessage, error)
	Events(ctx context.Context, job int64, most int) ([]journal.Event, error)
	Mandate(ctx context.Context) (journal.Mandate, error)
}

// Slurm is the part of a client of Slurm that the server uses. *slurmrest.Client is a Slurm.
type Slurm interface {
	Job(ctx context.Context, ref slurmrest.Ref) (slurmrest.Job, error)
	Node(ctx context.Context, name string) (slurmrest.Node, error)
}

// State is the result of the loop's last tick.
type State struct {
	Ticked   time.Time // zero: the loop has not looked yet
	Problems []string
	Policies []*rpc.Policy
	// Users returns the owner of a job that Slurm knows.
	Users func(job int64) string
	// Jobs are the jobs that have not ended; nil: the loop has not looked yet.
	Jobs func() []*rpc.Job
	// Unkept says which promises cannot be kept together, a line for each tier; nil: the loop has not looked yet.
	Unkept func() []string
	// Standing says how a job does; nil: the job has ended, or was not seen.
	Standing func(job int64) *rpc.Standing
}

// Options of a server. All must be set but Operators, Programs, Token, Poll and Log.
type Options struct {
	Version, Cluster string
	Journal          Journal
	Slurm            Slurm
	Operators        []string // users, and groups as "@name"
	Programs         Programs
	State            func() State
	Wake             func() // has the loop look at the journal at once
	// Token makes the token by which a browser acts as a user; nil: there is no page.
	Token func(uid uint32) *rpc.TokenReply
	// Snapshot is the last snapshot that policies saw; empty if they saw no snapshot yet.
	Snapshot func() ([]byte, error)
	// Doctor checks all that preemptd needs; Rights says why Slurm would refuse each action, if Slurm would. Both may be
	// nil.
	Doctor func(context.Context) []*rpc.Finding
	Rights func(context.Context) error
	// CheckSize says why a job cannot have the size or the nodes that an action would give it: a *jobrequest.SizeError,
	// or why that cannot be found out; nil: no size is refused.
	CheckSize func(ctx context.Context, job *slurmrest.Job, kind string, args action.Args) error
	// UsableGPUs is how many GPUs the programs of a running job can use on each of its nodes; 0, or nil: that is not known.
	UsableGPUs func(ctx context.Context, job *slurmrest.Job) (int64, error)
	Host       string // this host
	// Proxyds is how the nodes' proxyds are; nil, or a nil result: not known.
	Proxyds func() *rpc.Proxyds
	// Try asks policies for their intents.
	Try  func(ctx context.Context, req *rpc.TryRequest) (*rpc.TryReply, error)
	Poll time.Duration // how often the journal is read for watchers; default 500 ms
	Log  *slog.Logger  // of each caller and request; nil: no log
}

// Programs are Slurm's own; "": the facts that only that program knows are not known.
type Programs struct {
	Sacctmgr string // knows admin levels, and which users may use which QOS
	Scontrol string // knows SlurmUser
}

// Server answers requests. Its methods take the caller from munge.CallerOf: gRPC calls them
// behind a munge.CredentialCheck, and any other caller of them vouches for the user.
type Server struct {
	rpc.UnimplementedPreemptdServer
	opt    Options
	people *userDirectory
}

var _ rpc.PreemptdServer = (*Server)(nil)

// New returns a server that does not listen yet.
func New(opt Options) *Server {
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	if opt.Poll == 0 {
		opt.Poll = 500 * time.Millisecond
	}
	return &Server{opt: opt, people: newPeople(opt.Operators, opt.Programs, opt.Cluster)}
}

// Gated returns the gRPC server of preemptd's port. The caller serves and stops it.
func (s *Server) Gated(coder munge.Coder) *grpc.Server {
	// A user may watch all jobs of that user at once; then some of the watches wait.
	limits := func(c munge.Caller) munge.Limits {
		l := munge.Limits{Bytes: 64 << 10, Calls: 16}
		if p, err := s.people.lookUpPerson(context.Background(), c.UID); err == nil && p.operator {
			l.Bytes = 64 << 20 // snapshots to try policies on
		}
		return l
	}
	return rpc.NewServer(&munge.CredentialCheck{Coder: coder, Limits: limits}, s)
}

// Who returns the caller's name, and whether the caller may act on all users' jobs.
func (s *Server) Who(ctx context.Context) (name string, operator bool, err error) {
	who, err := s.identifyCaller(ctx)
	return who.name, who.operator, rpc.Status(err)
}

// Token makes a token for the caller. The user's rights are looked up when the token is used.
func (s *Server) Token(ctx context.Context, _ *rpc.TokenRequest) (*rpc.TokenReply, error) {
	reply, err := func() (*rpc.TokenReply, error) {
		who, err := s.identifyCaller(ctx)
		if err != nil {
			return nil, err
		}
		if s.opt.Token == nil {
			return nil, &rpc.Error{Kind: rpc.ErrInvalid, Text: "this preemptd serves no web page", Hint: "its configuration: web.address"}
		}
		s.opt.Log.Info("token made", "uid", who.uid, "who", who.name)
		return s.opt.Token(who.uid), nil
	}()
	return reply, rpc.Status(err)
}

// Show implements rpc.PreemptdServer, as do all methods below and the methods in act.go and
// watch.go.
func (s *Server) Show(ctx context.Context, req *rpc.ShowRequest) (*rpc.Action, error) {
	a, err := s.visibleAction(ctx, "show", req.GetId())
	if err != nil {
		return nil, rpc.Status(err)
	}
	lines, err := s.opt.Journal.Lines(ctx, a.ID)
	if err != nil {
		return nil, rpc.Status(err)
	}
	m := actionMessage(&a)
	m.Lines = lineMessages(lines)
	return m, nil
}

// maxHistory bounds a list.
const maxHistory = 100

// History lists the actions and events that the caller may see: those of the caller's jobs, also of jobs that Slurm has
// forgotten, and the actions that the caller asked for. Operators see all.
func (s *Server) History(ctx context.Context, req *rpc.HistoryRequest) (*rpc.HistoryReply, error) {
	reply, err := func() (*rpc.HistoryReply, error) {
		who, err := s.identifyCaller(ctx)
		if err != nil {
			return nil, err
		}
		var id int64
		everything, unknown := who.operator, error(nil)
		if req.GetJob() != "" {
			if id, everything, unknown, err = s.historyFor(ctx, who, req.GetJob()); err != nil {
				return nil, err
			}
		}
		limit := int(req.GetLimit())
		if limit <= 0 || limit > maxHistory {
			limit = maxHistory
		}
		read := limit
		if !everything {
			read *= 20 // some of these are other users'
		}
		all, err := s.opt.Journal.History(ctx, id, read)
		if err != nil {
			return nil, err
		}
		reply := &rpc.HistoryReply{}
		if standing := s.opt.State().Standing; id != 0 && everything && standing != nil {
			reply.Standing = standing(id)
			if err := s.addSubmitted(ctx, id, reply.GetStanding()); err != nil {
				return nil, err
			}
		}
		for i := range all {
			if len(reply.Actions) < limit && (everything || s.canSeeAction(who, &all[i])) {
				reply.Actions = append(reply.Actions, actionMessage(&all[i]))
			}
		}
		events, err := s.opt.Journal.Events(ctx, id, read)
		if err != nil {
			return nil, err
		}
		for _, e := range events {
			if len(reply.Events) < limit && (everything || s.ownsJob(who, e.Job, e.User)) {
				reply.Events = append(reply.Events, &rpc.Event{Job: e.Job, Restarts: e.Restarts, What: e.What, At: timestampOf(e.At), Text: e.Text})
			}
		}
		if len(reply.Actions)+len(reply.Events) == 0 {
			return reply, unknown
		}
		return reply, nil
	}()
	return reply, rpc.Status(err)
}

// Status says how preemptd does.
func (s *Server) Status(ctx context.Context, _ *rpc.StatusRequest) (*rpc.StatusReply, error) {
	reply, err := func() (*rpc.StatusReply, error) {
		who, err := s.identifyCaller(ctx)
		if err != nil {
			return nil, err
		}
		mandate, err := s.opt.Journal.Mandate(ctx)
		if err != nil {
			return nil, err
		}
		open, err := s.opt.Journal.Unfinished(ctx)
		if err != nil {
			return nil, err
		}
		state := s.opt.State()
		reply := &rpc.StatusReply{
			Version: s.opt.Version, Cluster: s.opt.Cluster, Holder: mandate.Name, Term: mandate.Term,
			Ticked: timestampOf(state.Ticked), Policies: state.Policies, UnderWay: int32(len(open)), //nolint:gosec // a list in memory
		}
		if who.operator {
			reply.Problems = state.Problems
		}
		if state.Unkept != nil {
			reply.Unkept = state.Unkept()
		}
		if s.opt.Proxyds != nil {
			reply.Proxyds = s.opt.Proxyds()
		}
		if s.opt.Rights != nil {
			if err := s.opt.Rights(ctx); err != nil {
				reply.Refused = err.Error()
			}
		}
		for i := range open {
			if s.canSeeAction(who, &open[i]) {
				reply.Actions = append(reply.Actions, actionMessage(&open[i]))
			}
		}
		return reply, nil
	}()
	return reply, rpc.Status(err)
}

// Doctor reports faults that keep preemptd from doing its work.
func (s *Server) Doctor(ctx context.Context, _ *rpc.DoctorRequest) (*rpc.DoctorReply, error) {
	if _, err := s.identifyCaller(ctx); err != nil {
		return nil, rpc.Status(err)
	}
	if s.opt.Doctor == nil {
		return nil, rpc.Status(rpc.Errorf(rpc.ErrUnsupported, "doctor: this preemptd looks at nothing"))
	}
	return &rpc.DoctorReply{Host: s.opt.Host, Version: s.opt.Version, Findings: s.opt.Doctor(ctx)}, nil
}

// Jobs lists the jobs of the last tick.
func (s *Server) Jobs(ctx context.Context, _ *rpc.JobsRequest) (*rpc.JobsReply, error) {
	who, err := s.identifyCaller(ctx)
	if err != nil {
		return nil, rpc.Status(err)
	}
	state := s.opt.State()
	reply := &rpc.JobsReply{Seen: timestampOf(state.Ticked)}
	if state.Jobs == nil {
		return reply, nil
	}
	for _, j := range state.Jobs() {
		if who.operator || j.GetUser() == who.name {
			reply.Jobs = append(reply.Jobs, j)
		}
	}
	return reply, nil
}
