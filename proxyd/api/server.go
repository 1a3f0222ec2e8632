// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/singularity-slurm/singularity-slurm/proxyd/host"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge"
)

// Options of a server. All must be set but Operators, Health and Log.
type Options struct {
	Node      string // this node, as Slurm names the node
	Version   string
	SlurmUser uint32
	Operators []string // users, and groups as "@name"
	Keep      int      // of each job this many checkpoints are kept
	Conductor Conductor
	// Doctor looks at this node. With measure it may write as much as it takes to see how fast that is.
	Doctor func(ctx context.Context, measure bool) []host.Finding
	Health func(context.Context) *rpc.Health // nil: pings do not ask for it
	Log    *slog.Logger                      // of each caller and request; nil: no log
}

// Server answers requests. Its methods are called by gRPC behind a munge.CredentialCheck.
type Server struct {
	rpc.UnimplementedProxydServer
	opt     Options
	started time.Time
	people  *userDirectory
	doctor  [2]sharedCall[[]host.Finding] // without and with measure
}

var _ rpc.ProxydServer = (*Server)(nil)

// New returns the handlers of requests without a gRPC server; a daemon uses NewServer.
func New(opt Options) *Server {
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	return &Server{opt: opt, started: time.Now(), people: newPeople(opt.SlurmUser, opt.Operators)}
}

// NewServer returns the server of proxyd's port. The caller serves and stops it.
func NewServer(opt Options, coder munge.Coder) *grpc.Server {
	s := New(opt)
	return rpc.NewServer(&munge.CredentialCheck{Node: opt.Node, Coder: coder, Limits: s.limitsOf}, s)
}

// limitsOf keeps a user from filling the daemon's memory; daemons send large bodies, many at
// once.
func (s *Server) limitsOf(c munge.Caller) munge.Limits {
	if s.people.isDaemon(c.UID) {
		return munge.Limits{Bytes: 16 << 20}
	}
	return munge.Limits{Bytes: 64 << 10, Calls: 8}
}

// Ping implements rpc.ProxydServer, as all below.
func (s *Server) Ping(ctx context.Context, req *rpc.PingRequest) (*rpc.PingReply, error) {
	if _, err := s.admitDaemon(ctx, "ping"); err != nil {
		return nil, rpc.Status(err)
	}
	reply := &rpc.PingReply{Node: s.opt.Node, Version: s.opt.Version, Started: timestamppb.New(s.started)}
	if req.GetHealth() && s.opt.Health != nil {
		reply.Health = s.opt.Health(ctx)
	}
	return reply, nil
}

// Call carries out this node's part in an operation that another node leads.
func (s *Server) Call(ctx context.Context, req *rpc.CallRequest) (*rpc.CallReply, error) {
	reply, err := func() (*rpc.CallReply, error) {
		caller, err := s.admitDaemon(ctx, "call")
		if err != nil {
			return nil, err
		}
		if err := checkCall(req); err != nil {
			return nil, err
		}
		return s.opt.Conductor.Call(ctx, caller.From, req)
	}()
	return reply, rpc.Status(err)
}

// Doctor looks at this node. Requests that come while a look is under way get the same answer; no
// answer is kept, because the next request may come right after a repair. Only operators have this node measure how
// fast it writes.
func (s *Server) Doctor(ctx context.Context, _ *rpc.DoctorRequest) (*rpc.DoctorReply, error) {
	caller, ok := munge.CallerOf(ctx)
	if !ok {
		return nil, rpc.Status(errNobody)
	}
	measure, err := s.people.isOperator(ctx, caller.UID)
	if err != nil {
		measure = false // the operators cannot be looked up now, and doctor may say why
	}
	answers := &s.doctor[0]
	if measure {
		answers = &s.doctor[1]
	}
	findings, err := answers.freshAnswer(ctx, func(ctx context.Context) []host.Finding { return s.opt.Doctor(ctx, measure) })
	if err != nil {
		return nil, rpc.Status(err)
	}
	reply := &rpc.DoctorReply{Node: s.opt.Node, Version: s.opt.Version}
	for _, f := range findings {
		reply.Findings = append(reply.Findings, &rpc.Finding{
			Name: f.Name, Level: rpc.Finding_Level(f.Level), Found: f.Found, Needs: f.Needs, Do: f.Do, Fingerprint: f.Fingerprint})
	}
	return reply, nil
}

// Show returns the description of a job.
func (s *Server) Show(ctx context.Context, req *rpc.ShowRequest) (*rpc.Job, error) {
	job, err := func() (*rpc.Job, error) {
		if _, err := s.admitOwner(ctx, "show", req.GetJob()); err != nil {
			return nil, err
		}
		return s.opt.Conductor.Show(ctx, req.GetJob())
	}()
	return job, rpc.Status(err)
}

// Checkpoint makes a checkpoint of a running job.
func (s *Server) Checkpoint(req *rpc.CheckpointRequest, stream grpc.ServerStreamingServer[rpc.Progress]) error {
	ctx := stream.Context()
	caller, err := s.admitOwner(ctx, "checkpoint", req.GetJob())
	if err != nil {
		return rpc.Status(err)
	}
	reason, err := checkReason(req.GetReason())
	if err != nil {
		return rpc.Status(err)
	}
	s.opt.Log.Info("checkpoint asked for", "job", req.GetJob(), "uid", caller.UID, "reason", reason)
	return relayProgress(stream, func(progress func(*rpc.Progress)) (*rpc.Progress, error) {
		c, err := s.opt.Conductor.Checkpoint(ctx, &rpc.CheckpointRequest{Job: req.GetJob(), Reason: reason, HoldAfterwards: req.GetHoldAfterwards()}, progress)
		return &rpc.Progress{Result: &rpc.Progress_Checkpoint{Checkpoint: c}}, err
	})
}

// RunOn has a job run on that stands still after a checkpoint.
func (s *Server) RunOn(ctx context.Context, req *rpc.RunOnRequest) (*rpc.RunOnReply, error) {
	if _, err := s.admitOwner(ctx, "run on", req.GetJob()); err != nil {
		return nil, rpc.Status(err)
	}
	return &rpc.RunOnReply{}, rpc.Status(s.opt.Conductor.RunOn(ctx, req.GetJob()))
}

// Lend has a running job be lent more or fewer GPUs.
func (s *Server) Lend(ctx context.Context, req *rpc.LendRequest) (*rpc.LendReply, error) {
	caller, err := s.admitOwner(ctx, "lend GPUs to", req.GetJob())
	if err != nil {
		return nil, rpc.Status(err)
	}
	s.opt.Log.Info("GPUs asked for", "job", req.GetJob(), "uid", caller.UID, "gpus", req.GetGpus(), "qos", req.GetQos())
	reply, err := s.opt.Conductor.Lend(ctx, req)
	return reply, rpc.Status(err)
}

// Checkpoints lists the checkpoints that the caller may see.
func (s *Server) Checkpoints(ctx context.Context, req *rpc.CheckpointsRequest) (*rpc.CheckpointsReply, error) {
	list, err := s.visibleCheckpoints(ctx, "checkpoints", req.GetJob())
	if err != nil {
		return nil, rpc.Status(err)
	}
	reply := &rpc.CheckpointsReply{Checkpoints: list, Keep: uint32(s.opt.Keep)}
	if req.GetJob() != "" {
		if reply.Attempts, err = s.visibleAttempts(ctx, req.GetJob()); err != nil {
			return nil, rpc.Status(err)
		}
	}
	return reply, nil
}

// Verify reads checkpoints back.
func (s *Server) Verify(req *rpc.VerifyRequest, stream grpc.ServerStreamingServer[rpc.Progress]) error {
	ctx := stream.Context()
	list, err := s.namedCheckpoints(ctx, "verify", req.GetCheckpoints())
	if err != nil {
		return rpc.Status(err)
	}
	var ids []string
	for _, c := range list {
		if c.GetState() == "" { // else the checkpoint is not in the store yet
			ids = append(ids, c.GetId())
		}
	}
	return relayProgress(stream, func(progress func(*rpc.Progress)) (*rpc.Progress, error) {
		r, err := s.opt.Conductor.Verify(ctx, ids, progress)
		return &rpc.Progress{Result: &rpc.Progress_Verified{Verified: r}}, err
	})
}

// GC deletes old checkpoints.
func (s *Server) GC(req *rpc.GCRequest, stream grpc.ServerStreamingServer[rpc.Progress]) error {
	ctx := stream.Context()
	caller, err := s.admitOperator(ctx, "gc")
	if err != nil {
		return rpc.Status(err)
	}
	if err := checkGC(req); err != nil {
		return rpc.Status(err)
	}
	if !req.GetDryRun() {
		s.opt.Log.Info("collection asked for", "uid", caller.UID)
	}
	return relayProgress(stream, func(progress func(*rpc.Progress)) (*rpc.Progress, error) {
		r, err := s.opt.Conductor.GC(ctx, req, progress)
		return &rpc.Progress{Result: &rpc.Progress_Collected{Collected: r}}, err
	})
}

// Delete deletes all checkpoints that are named, or, if any is refused, none.
func (s *Server) Delete(ctx context.Context, req *rpc.DeleteRequest) (*rpc.DeleteReply, error) {
	reply, err := func() (*rpc.DeleteReply, error) {
		caller, ok := munge.CallerOf(ctx)
		if !ok {
			return nil, errNobody
		}
		if len(req.GetCheckpoints()) == 0 {
			return nil, rpc.Errorf(rpc.ErrInvalid, "delete: no checkpoint is named")
		}
		list, err := s.wholeCheckpoints(ctx, "delete", req.GetCheckpoints())
		if err != nil {
			return nil, err
		}
		reply := &rpc.DeleteReply{}
		for _, c := range list {
			if !slices.Contains(reply.Deleted, c.GetId()) {
				reply.Deleted = append(reply.Deleted, c.GetId())
			}
		}
		s.opt.Log.Info("delete asked for", "checkpoints", reply.Deleted, "uid", caller.UID)
		return reply, s.opt.Conductor.Delete(ctx, reply.Deleted)
	}()
	return reply, rpc.Status(err)
}

// Export sends a checkpoint's files.
func (s *Server) Export(req *rpc.ExportRequest, stream grpc.ServerStreamingServer[rpc.ExportPiece]) error {
	ctx := stream.Context()
	list, err := s.wholeCheckpoints(ctx, "export", []string{req.GetCheckpoint()})
	if err != nil {
		return rpc.Status(err)
	}
	out := &sender{stream: stream, total: list[0].GetLogical()}
	return rpc.Status(s.opt.Conductor.Export(ctx, list[0].GetId(), out.sendFile))
}
