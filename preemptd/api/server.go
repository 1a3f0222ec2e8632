// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"google.golang.org/grpc"

	"github.com/singularity-slurm/singularity-slurm/preemptd/journal"
	"github.com/singularity-slurm/singularity-slurm/preemptd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge"
	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// Journal is what the server needs of it. *journal.Journal is one.
type Journal interface {
	Begin(ctx context.Context, r journal.Request) (journal.Action, error)
	Action(ctx context.Context, id int64) (journal.Action, error)
	Lines(ctx context.Context, id int64) ([]journal.Line, error)
	History(ctx context.Context, job int64, most int) ([]journal.Action, error)
	Unfinished(ctx context.Context) ([]journal.Action, error)
	Origin(ctx context.Context, job int64) (json.RawMessage, error)
	Lease(ctx context.Context) (journal.Lease, error)
}

// Slurm is what it asks of Slurm. *slurmrest.Client is one.
type Slurm interface {
	Job(ctx context.Context, ref slurmrest.Ref) (slurmrest.Job, error)
	Node(ctx context.Context, name string) (slurmrest.Node, error)
}

// State is what the loop saw and did last.
type State struct {
	Ticked   time.Time // zero: it has not looked yet
	Problems []string
	Policies []*rpc.Policy
	// Users are the owners of the jobs that Slurm knows, by id.
	Users func(job int64) string
}

// Options of a server. All must be set but Operators, Sacctmgr, Poll and Log.
type Options struct {
	Version, Cluster string
	Journal          Journal
	Slurm            Slurm
	Operators        []string // users, and groups as "@name"
	Sacctmgr         string   // Slurm's program, which knows admin levels; "": nobody has one
	State            func() State
	Wake             func()        // has the loop look at the journal at once
	Poll             time.Duration // how often the journal is read for who watches; default 500 ms
	Log              *slog.Logger  // told who asked for what; nil: nobody is
}

// Server answers requests. Its methods are called by gRPC behind a munge.Gate.
type Server struct {
	rpc.UnimplementedPreemptdServer
	opt    Options
	people *people
}

var _ rpc.PreemptdServer = (*Server)(nil)

// NewServer returns what listens on preemptd's port. The caller serves and stops it.
func NewServer(opt Options, coder munge.Coder) *grpc.Server {
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	if opt.Poll == 0 {
		opt.Poll = 500 * time.Millisecond
	}
	return (&Server{opt: opt, people: newPeople(opt.Operators, opt.Sacctmgr)}).gated(coder)
}

// gated is the server behind its gate.
func (s *Server) gated(coder munge.Coder) *grpc.Server {
	// A user who watches all his jobs at once waits for some of them.
	limits := func(munge.Caller) munge.Limits { return munge.Limits{Bytes: 64 << 10, Calls: 16} }
	return rpc.NewServer(&munge.Gate{Coder: coder, Limits: limits}, s)
}

// Show implements rpc.PreemptdServer, as all below and those in act.go and watch.go.
func (s *Server) Show(ctx context.Context, req *rpc.ShowRequest) (*rpc.Action, error) {
	a, err := s.visible(ctx, "show", req.GetId())
	if err != nil {
		return nil, rpc.Status(err)
	}
	lines, err := s.opt.Journal.Lines(ctx, a.ID)
	if err != nil {
		return nil, rpc.Status(err)
	}
	m := message(&a)
	m.Lines = lineMessages(lines)
	return m, nil
}

// maxHistory bounds a list.
const maxHistory = 100

// History lists what the caller may see. Of a job that Slurm has forgotten nobody knows
// whose it was: its actions are shown to operators, and to who asked for them.
func (s *Server) History(ctx context.Context, req *rpc.HistoryRequest) (*rpc.HistoryReply, error) {
	reply, err := func() (*rpc.HistoryReply, error) {
		who, err := s.caller(ctx)
		if err != nil {
			return nil, err
		}
		var id int64
		everything := who.operator
		if req.GetJob() != "" {
			if id, everything, err = s.historic(ctx, who, req.GetJob()); err != nil {
				return nil, err
			}
		}
		limit := int(req.GetLimit())
		if limit <= 0 || limit > maxHistory {
			limit = maxHistory
		}
		read := limit
		if !everything {
			read *= 20 // of which some are others'
		}
		all, err := s.opt.Journal.History(ctx, id, read)
		if err != nil {
			return nil, err
		}
		reply := &rpc.HistoryReply{}
		for i := range all {
			if len(reply.Actions) < limit && (everything || s.sees(who, &all[i])) {
				reply.Actions = append(reply.Actions, message(&all[i]))
			}
		}
		return reply, nil
	}()
	return reply, rpc.Status(err)
}

// Status says how preemptd does.
func (s *Server) Status(ctx context.Context, _ *rpc.StatusRequest) (*rpc.StatusReply, error) {
	reply, err := func() (*rpc.StatusReply, error) {
		who, err := s.caller(ctx)
		if err != nil {
			return nil, err
		}
		lease, err := s.opt.Journal.Lease(ctx)
		if err != nil {
			return nil, err
		}
		open, err := s.opt.Journal.Unfinished(ctx)
		if err != nil {
			return nil, err
		}
		state := s.opt.State()
		reply := &rpc.StatusReply{
			Version: s.opt.Version, Cluster: s.opt.Cluster, Holder: lease.Name, Term: lease.Term,
			Ticked: stamp(state.Ticked), Policies: state.Policies, UnderWay: int32(len(open)), //nolint:gosec // a list in memory
		}
		if who.operator {
			reply.Problems = state.Problems
		}
		for i := range open {
			if s.sees(who, &open[i]) {
				reply.Actions = append(reply.Actions, message(&open[i]))
			}
		}
		return reply, nil
	}()
	return reply, rpc.Status(err)
}
