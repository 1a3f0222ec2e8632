// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package apitest has a conductor for tests of its callers: package api, and singctl.
package apitest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/singularity-slurm/singularity-slurm/proxyd/api"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// The people of the fake, as in minicluster.
const (
	Alice     = 1001
	Bob       = 1002
	Operator  = 1003
	SlurmUser = 64030
)

// Conductor has these jobs:
//
//	812    alice's; runs on two nodes; has checkpoints 1 and 2
//	813    bob's; cannot be captured
//	814    alice's; pending; has checkpoint 1, and 2 is on its way
//	812_3  alice's; its checkpoint takes until Release
//	815    alice's, without --singularity
//	816    bob's; gone, but has checkpoint 4, of which the manifest is damaged
//	819    alice's; ended, has no checkpoint
//	811    has no known owner; is like 816
//	817    alice's; led by n2 now
//	901    alice's; lends two GPUs to 812
//	902    alice's; pending, is to lend its GPUs to 812
//
// The fake notes each call: Asked returns the notes.
type Conductor struct {
	Release chan struct{} // the checkpoint of 812_3 ends when a test closes this channel
	First   string        // the phase in which the checkpoint of 812_3 waits for Release

	mu    sync.Mutex
	asked []string
}

var _ api.Conductor = (*Conductor)(nil)

// New returns a Conductor with a job 812_3 that waits in the phase freeze.
func New() *Conductor { return &Conductor{Release: make(chan struct{}), First: "freeze"} }

// Asked returns the calls so far in their order, a line for each.
func (c *Conductor) Asked() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.asked...)
}

func (c *Conductor) noteCall(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, fmt.Sprintf(format, args...))
}

// Then is the time of all events of the fake.
var Then = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func atMinute(minutes int) *timestamppb.Timestamp {
	return timestamppb.New(Then.Add(time.Duration(minutes) * time.Minute))
}

// Owner implements api.Conductor, as all below.
func (c *Conductor) Owner(_ context.Context, job string) (uint32, error) {
	switch job {
	case "812", "814", "815", "812_3", "817", "819", "901", "902":
		return Alice, nil
	case "813", "816":
		return Bob, nil
	case "666":
		return 0, errors.New("scontrol: \x1b[2Jno answer")
	}
	return 0, fmt.Errorf("job %s: %w", job, rpc.ErrNoJob)
}

// reachable are the ports of a job that clients outside can reach.
var reachable = []*rpc.Reachable{
	{Port: 8888, At: "head1:7042"},
	{Port: 6006, Problem: "user 1001 has 16 ports already, as many as the site allows (clients.per_user)"},
}

// Show tells of jobs.
func (c *Conductor) Show(ctx context.Context, job string) (*rpc.Job, error) {
	c.noteCall("show %s", job)
	checkpoints, err := c.Checkpoints(ctx, job)
	if err != nil {
		return nil, err
	}
	switch job {
	case "812":
		return &rpc.Job{
			Id: "812", Uid: Alice, User: "alice", Name: "train\x1b[31m", State: "RUNNING", Restarts: 1, Leader: "n1",
			Options: map[string]string{"interval": "600", "gpus": "2-8"},
			Capsules: []*rpc.Capsule{
				{Index: 0, Home: "n1", Node: "n1", Address: "100.64.0.1", Programs: []*rpc.Program{
					{Name: "batch", Pid: 301, State: "running", Started: atMinute(0), Rss: 3 << 20, Command: "bash"},
					{Name: "s0.0", Pid: 340, State: "running", Started: atMinute(1), Rss: 5 << 30, Command: "python3 train.py"}},
					Leases: []*rpc.Lease{{Job: 815, Gpus: 1}}, Reachable: reachable,
					Devices: &rpc.Devices{
						Devices:   []*rpc.Device{{Name: "Software GPU", Memory: 4 << 30, Used: 1 << 30}, {Name: "Software GPU", Memory: 4 << 30}},
						Processes: []*rpc.DeviceProcess{{Pid: 340, Used: 1 << 30}, {}},
						Missed:    []string{"cuTexObject\x1b[31mCreate"},
						Faults:    []string{"process 311: an illegal address"}, Reductions: "nccl",
						Sharing: []*rpc.Sharing{{
							Devices: 2, Spaces: 2, Instructions: 1e9, Switches: 812, SwitchTime: durationpb.New(1200 * time.Millisecond), Interrupted: 3,
							SwappedOut: 3 << 30, SwappedIn: 2 << 30, SwapTime: durationpb.New(time.Second), SwapSpared: 6 << 30, Peak: 4 << 30, Alike: 1 << 30,
							Common: 1 << 30, Saved: 3 << 30, Private: 512 << 20, Unshared: 256 << 20, Rung: "splice", Once: 400, Own: 90, Why: "what they read differs",
						}},
					}},
				{Index: 1, Home: "n2", Node: "n3", Address: "100.64.0.2", Programs: []*rpc.Program{
					{Name: "s0.1", Pid: 310, State: "ended", Started: atMinute(1), Ended: atMinute(50), Status: 9, Command: "python3 train.py"}}},
			},
			Checkpoints: checkpoints,
			Obstacles:   listTerminals(),
			Outside:     []*rpc.Obstacle{{Program: "s0.0", Node: "n1", Pid: 353, Command: "python3", What: "is connected to 192.0.2.7:443, which is outside of the job", Cure: "a restore resets it"}},
			Timeline: []*rpc.Event{
				{Time: atMinute(0), Event: "started", Where: "n1,n2", Run: 1},
				{Time: atMinute(10), Event: "checkpoint", Where: "n1,n2", Text: "1 (interval), in 1.3s", Checkpoint: 1, Took: durationpb.New(1300 * time.Millisecond)},
				{Time: atMinute(30), Event: "checkpoint", Where: "n1,n2", Text: "2 (requeue), in 1.3s", Checkpoint: 2, Took: durationpb.New(1300 * time.Millisecond)},
				{Time: atMinute(30), Event: "left", Where: "n1,n2"},
				{Time: atMinute(34), Event: "started", Where: "n1,n3", Text: "run 2, to resume from checkpoint 2", Run: 2, Checkpoint: 2},
				{Time: atMinute(35), Event: "restored", Where: "n1,n3", Text: "from checkpoint 2", Checkpoint: 2},
				{Time: atMinute(40), Event: "GPUs", Where: "n1", Text: "job 815 lends 1: 5 now"}},
			Comment: "singularity: restored from checkpoint 2",
		}, nil
	case "815":
		return nil, rpc.Errorf(rpc.ErrNotProtected, "job 815 runs without --singularity")
	case "901":
		return &rpc.Job{
			Id: "901", Uid: Alice, User: "alice", Name: "lease-of-812", State: "RUNNING", Lends: &rpc.Lending{Job: 812, Node: "n1", Gpus: []uint32{1, 3}},
		}, nil
	case "902":
		return &rpc.Job{Id: "902", Uid: Alice, User: "alice", Name: "lease-of-812", State: "PENDING", Lends: &rpc.Lending{Job: 812}}, nil
	case "817":
		return nil, &rpc.Error{Kind: rpc.ErrNotLeader, Text: "job 817 is led by n2", Node: "n2"}
	}
	switch job {
	case "816":
		return &rpc.Job{Id: "816", Uid: Bob, User: "bob", Checkpoints: checkpoints}, nil
	case "819":
		return &rpc.Job{Id: "819", Uid: Alice, User: "alice", Name: "done", State: "COMPLETED"}, nil
	}
	return &rpc.Job{Id: job, Uid: Alice, User: "alice", Name: "wait", State: "PENDING", Checkpoints: checkpoints}, nil
}

// listTerminals returns obstacles of three processes, of which two are the same but for the process.
func listTerminals() []*rpc.Obstacle {
	return []*rpc.Obstacle{
		{Program: "s0.0", Node: "n1", Pid: 352, Command: "ssh", What: "has a terminal", Cure: "start it without", Since: atMinute(20)},
		{Program: "s0.1", Node: "n3", Pid: 311, Command: "python3", What: "has a terminal", Cure: "start it without", Since: atMinute(22)},
		{Program: "s0.1", Node: "n3", Pid: 352, Command: "ssh", What: "has a terminal", Cure: "start it without", Since: atMinute(21)},
	}
}

// Checkpoint reports the progress of a checkpoint, and makes no checkpoint.
func (c *Conductor) Checkpoint(ctx context.Context, req *rpc.CheckpointRequest, progress func(*rpc.Progress)) (*rpc.Checkpoint, error) {
	job, reason := req.GetJob(), req.GetReason()
	c.noteCall("checkpoint %s %q", job, reason)
	progress(&rpc.Progress{Phase: c.First})
	switch job {
	case "813":
		return nil, &rpc.Error{Kind: rpc.ErrObstacle, Text: "job 813: checkpoint 1: prepare: python3 (PID 312 and 1 more) holds a terminal (/dev/pts/3): close it",
			Obstacles: []*rpc.Obstacle{
				{Program: "batch", Node: "n2", Pid: 312, Command: "python3", What: "holds a terminal (/dev/pts/3)", Cure: "close it"},
				{Program: "batch", Node: "n2", Pid: 313, Command: "python3", What: "holds a terminal (/dev/pts/3)", Cure: "close it"},
			}}
	case "814":
		return nil, rpc.Errorf(rpc.ErrNotRunning, "job 814 is pending")
	case "819":
		return nil, &rpc.Error{Kind: rpc.ErrNotRunning, Text: "job 819 has ended: COMPLETED", Hint: "singctl checkpoints 819 lists what is left of it"}
	case "815":
		return nil, fmt.Errorf("job 815: %w", rpc.ErrNotProtected)
	case "812_3":
		select {
		case <-c.Release:
		case <-ctx.Done():
			c.noteCall("checkpoint %s given up", job)
			return nil, ctx.Err()
		}
	}
	progress(&rpc.Progress{Phase: "dump", Done: 1 << 30, Total: 4 << 30, Unit: "bytes"})
	return &rpc.Checkpoint{Id: "mini/" + job + "/3", Job: job, Uid: Alice, User: "alice", Number: 3, Created: atMinute(60),
		Logical: 4 << 30, Stored: 700 << 20, Reason: reason, Nodes: []string{"n1", "n2"}}, nil
}

// Call answers a dump with the ticket of the request, and fails a drain.
func (c *Conductor) Call(_ context.Context, from string, req *rpc.CallRequest) (*rpc.CallReply, error) {
	c.noteCall("call %s %d, from %s", req.GetJob(), req.GetAttempt(), from)
	if req.GetDrain() != nil {
		return nil, fmt.Errorf("%w: 3 GiB free, 9 GiB needed", rpc.ErrSpace)
	}
	return &rpc.CallReply{Reply: &rpc.CallReply_Dump{Dump: &rpc.DumpReply{Part: []byte(req.GetDump().GetTicket())}}}, nil
}

// Checkpoints lists the checkpoints of the jobs above.
func (c *Conductor) Checkpoints(_ context.Context, job string) ([]*rpc.Checkpoint, error) {
	phases := []*rpc.PhaseTime{{Phase: "freeze", Took: durationpb.New(40 * time.Millisecond)}, {Phase: "dump", Took: durationpb.New(1260 * time.Millisecond)}}
	all := []*rpc.Checkpoint{
		{Id: "mini/812/1", Job: "812", Uid: Alice, User: "alice", Number: 1, Created: atMinute(10), Logical: 5 << 30, Stored: 2 << 30, Phases: phases, Reason: "interval", Nodes: []string{"n1", "n2"}},
		{Id: "mini/812/2", Job: "812", Uid: Alice, User: "alice", Number: 2, Created: atMinute(30), Logical: 5 << 30, Stored: 90 << 20, Phases: phases, Reason: "requeue", Nodes: []string{"n1", "n2"}},
		{Id: "mini/813/1", Job: "813", Uid: Bob, User: "bob", Number: 1, Created: atMinute(5), Logical: 100 << 20, Stored: 10 << 20, Phases: phases, Reason: "asked", Nodes: []string{"n2"}},
		{Id: "mini/814/1", Job: "814", Uid: Alice, User: "alice", Number: 1, Created: atMinute(7), Logical: 1 << 20, Stored: 1 << 10, Phases: phases, Reason: "time limit", Nodes: []string{"n1"}},
		{Id: "mini/814/2", Job: "814", Uid: Alice, User: "alice", Number: 2, Created: atMinute(9), Reason: "requeue", Nodes: []string{"n1"}, State: "uploading"},
		{Id: "mini/811/1", Job: "811", Number: 1, Problem: "manifest mini/811/1: not a manifest"},
		{Id: "mini/816/4", Job: "816", Uid: Bob, User: "bob", Number: 4, Problem: "manifest mini/816/4: refused: seal does not match the cluster's key"},
	}
	var list []*rpc.Checkpoint
	for _, cp := range all {
		if job == "" || cp.GetJob() == job {
			list = append(list, cp)
		}
	}
	return list, nil
}

// Attempts says that a checkpoint is being made of job 812_3, which has no checkpoint yet, and of job 813.
func (c *Conductor) Attempts(_ context.Context, job string) ([]*rpc.Attempt, error) {
	if job != "812_3" && job != "813" {
		return nil, nil
	}
	uid, err := c.Owner(context.Background(), job)
	return []*rpc.Attempt{{Job: job, Uid: uid, Began: atMinute(31), Reason: "requeue", Phase: "dump", PhaseBegan: atMinute(32)}}, err
}

// Verify finds 816/4 damaged.
func (c *Conductor) Verify(_ context.Context, ids []string, progress func(*rpc.Progress)) (*rpc.VerifyReport, error) {
	c.noteCall("verify %s", strings.Join(ids, " "))
	progress(&rpc.Progress{Phase: "read", Done: 1 << 20, Total: 2 << 20, Unit: "bytes"})
	r := &rpc.VerifyReport{Checkpoints: int64(len(ids)), Chunks: 2, Bytes: 2 << 20}
	for _, id := range ids {
		if id == "mini/816/4" || id == "mini/811/1" {
			r.Problems = append(r.Problems, "checkpoint "+id+": seal does not match the cluster's key")
		}
	}
	return r, nil
}

// RunOn notes the call.
func (c *Conductor) RunOn(_ context.Context, job string) error {
	c.noteCall("run on %s", job)
	return nil
}

// Lend notes the call.
func (c *Conductor) Lend(_ context.Context, req *rpc.LendRequest) (*rpc.LendReply, error) {
	c.noteCall("lend to %s until it has %d", req.GetJob(), req.GetGpus())
	return &rpc.LendReply{Leases: []uint32{901}}, nil
}

// Delete only notes the call.
func (c *Conductor) Delete(_ context.Context, ids []string) error {
	c.noteCall("delete %s", strings.Join(ids, " "))
	return nil
}

// GC deletes no checkpoint. If a request keeps 7 checkpoints, GC reports that 816/4 is damaged; if a request keeps
// 5, GC reports chunks that must stay for a while.
func (c *Conductor) GC(_ context.Context, req *rpc.GCRequest, progress func(*rpc.Progress)) (*rpc.GCReport, error) {
	keep := "as configured"
	if req.Keep != nil {
		keep = fmt.Sprint(req.GetKeep())
	}
	age := "as configured"
	if req.GetOlderThan() != nil {
		age = req.GetOlderThan().AsDuration().String()
	}
	c.noteCall("gc older than %s, keep %s, dry run %v", age, keep, req.GetDryRun())
	progress(&rpc.Progress{Phase: "sweep", Done: 128, Total: 256})
	if keep == "5" {
		return &rpc.GCReport{DryRun: req.GetDryRun(), Spared: 12, SparedBytes: 3 << 20, SparedUntil: timestamppb.New(Then.Add(59500 * time.Millisecond)), Open: 1}, nil
	}
	if keep == "7" {
		return &rpc.GCReport{Expired: []string{"mini/812/1"}, DryRun: req.GetDryRun(),
			Damaged: []*rpc.Damage{{Checkpoint: "mini/816/4", Problem: "manifest mini/816/4: refused: seal does not match the cluster's key"}}}, nil
	}
	return &rpc.GCReport{Expired: []string{"mini/812/1"}, Chunks: 31, Bytes: 2 << 30, Waiting: 1, DryRun: req.GetDryRun()}, nil
}

// Export gives two files; the second file has a hole. A file of job 814 is cut short, and the names of job 813's files
// lead out of the folder.
func (c *Conductor) Export(_ context.Context, id string, put func(name string, size int64, content io.Reader) error) error {
	c.noteCall("export %s", id)
	if id == "mini/813/1" {
		return put("../../escaped", 1, strings.NewReader("x"))
	}
	if err := put("n1/node/meta.json", 14, strings.NewReader("{\"hello\": \"x\"}")); err != nil {
		return err
	}
	size := int64(3<<20 + 5)
	if id == "mini/814/1" {
		return put("n1/0/pages-1.img", size, strings.NewReader("short"))
	}
	hole := strings.Repeat("\x00", 2<<20)
	return put("n1/0/pages-1.img", size, io.MultiReader(strings.NewReader("begin"), strings.NewReader(hole), strings.NewReader(strings.Repeat("e", 1<<20))))
}
