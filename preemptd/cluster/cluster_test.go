// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/preemptd/jobrequest"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu"
	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
	"github.com/singularity-slurm/singularity-slurm/slurmrestd-client/slurmresttest"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// proxyds know which jobs are protected.
type proxyds struct {
	protected map[int64]bool
	waiting   map[int64]bool // jobs with checkpoints that have no capsules yet
	asked     map[int64]int
	away      bool
	gpus      string   // --singularity-gpus of all
	devices   []string // names of the GPUs of each
	lends     map[int64]*rpc.Lending
	made      []*rpc.Checkpoint
}

func (p *proxyds) Show(_ context.Context, j *slurmrest.Job) (*rpc.Job, error) {
	p.asked[j.ID]++
	switch {
	case p.away:
		return nil, rpc.Errorf(rpc.ErrUnreachable, "n1: proxyd does not answer")
	case p.lends[j.ID] != nil:
		return &rpc.Job{Id: fmt.Sprint(j.ID), Lends: p.lends[j.ID]}, nil
	case p.waiting[j.ID]:
		return &rpc.Job{Id: fmt.Sprint(j.ID), Checkpoints: []*rpc.Checkpoint{{Number: 1}}}, nil
	case !p.protected[j.ID]:
		return nil, rpc.Errorf(rpc.ErrNotProtected, "runs without --singularity")
	}
	capsule := &rpc.Capsule{Devices: &rpc.Devices{}}
	for _, name := range p.devices {
		capsule.Devices.Devices = append(capsule.Devices.Devices, &rpc.Device{Name: name})
	}
	return &rpc.Job{Id: fmt.Sprint(j.ID), Options: map[string]string{"gpus": p.gpus}, Capsules: []*rpc.Capsule{capsule}}, nil
}

func (p *proxyds) AllCheckpoints(context.Context, []slurmrest.Node) ([]*rpc.Checkpoint, error) {
	if p.away {
		return nil, rpc.Errorf(rpc.ErrUnreachable, "nobody answers")
	}
	return p.made, nil
}

// at is when the tests look.
var at = time.Unix(1_800_000_000, 0)

// newSite has three nodes and jobs in all states.
func newSite(t *testing.T, release string) (*slurmresttest.Server, *proxyds, *Watch) {
	t.Helper()
	s := slurmresttest.Start(t, slurmresttest.Options{Release: release, Now: func() time.Time { return at }})
	for _, n := range []slurmrest.Node{
		{Name: "n2", GRES: "gpu:a100:4(S:0-1)", CPUs: 8, RealMemory: 4000, Partitions: []string{"main"}},
		{Name: "n1", GRES: "gpu:a100:4(S:0-1)", CPUs: 8, RealMemory: 4000, Partitions: []string{"main"}},
		{Name: "n3", GRES: "gpu:2", State: slurmrest.NodeState{Base: "IDLE", Flags: []string{"DRAIN"}}, Reason: "fan"},
		{Name: "n4", State: slurmrest.NodeState{Base: "DOWN"}},
	} {
		s.AddNode(n)
	}
	s.AddPartition(slurmrest.Partition{Name: "main", State: "UP", Nodes: "n[1-4]", PriorityTier: 1})
	s.AddQOS(slurmrest.QOS{Name: "premium", Priority: slurmrest.Num(200)})
	add := func(id int64, edit func(*slurmrest.Job)) {
		j := slurmrest.Job{
			ID: id, Name: fmt.Sprint("job ", id), User: "alice", Account: "research", Partition: "main", QOS: "basic", Batch: true, Requeueable: true,
			NodeCount: slurmrest.Num(1), Tasks: slurmrest.Num(4), CPUs: slurmrest.Num(4), TRESPerNode: "gres/gpu:2", TimeLimit: slurmrest.LimitOf(time.Hour),
		}
		edit(&j)
		s.AddJob(j)
	}
	running := slurmrest.State{Base: slurmrest.Running}
	add(1, func(j *slurmrest.Job) {
		j.State, j.Nodes, j.BatchHost, j.NodeCount, j.StartTime = running, "n[1-2]", "n1", slurmrest.Num(2), at.Add(-time.Minute)
		j.GRESDetail, j.TRESAllocated = []string{"gpu:a100:2(IDX:0,3)", "gpu:a100:2(IDX:0-1)"}, "cpu=8,gres/gpu=4"
		j.Layout = []slurmrest.NodeLayout{{Node: "n1", CPUs: 4, Memory: 100}, {Node: "n2", CPUs: 4, Memory: 100}}
	})
	add(2, func(j *slurmrest.Job) { // Slurm does not say which
		j.State, j.Nodes, j.BatchHost, j.TRESAllocated = running, "n2", "n2", "cpu=4,gres/gpu=1"
	})
	add(3, func(j *slurmrest.Job) {
		j.RequiredNodes, j.ExcludedNodes, j.RequestedFeatures = "n[1,9]", "n3", "fast&big"
	})
	add(4, func(j *slurmrest.Job) { j.Held, j.Priority, j.Reason = true, slurmrest.Num(0), "JobHeldUser" })
	add(5, func(j *slurmrest.Job) { j.Held, j.Priority, j.Reason = true, slurmrest.Num(0), "JobHeldAdmin" })
	add(6, func(j *slurmrest.Job) { j.Reason, j.QOS = "Dependency", "premium" })
	add(7, func(j *slurmrest.Job) {
		j.State = slurmrest.State{Base: slurmrest.Pending, Flags: slurmrest.Completing}
		j.Nodes, j.TRESAllocated = "n1", ""
	})
	add(8, func(j *slurmrest.Job) { j.State.Base = slurmrest.Completed })
	p := &proxyds{protected: map[int64]bool{1: true}, asked: map[int64]int{}, made: []*rpc.Checkpoint{
		{Id: "fake/1/1", Job: "1", Created: timestamppb.New(at.Add(-time.Hour))},
		{
			Id: "fake/1/2", Job: "1", Created: timestamppb.New(at.Add(-time.Second)), Stored: 77,
			Phases: []*rpc.PhaseTime{{Phase: "prepare", Took: durationpb.New(time.Hour)}, {Phase: "freeze", Took: durationpb.New(time.Second)}, {Phase: "dump", Took: durationpb.New(2 * time.Second)}},
		},
		{Id: "fake/1/3", Job: "1", Problem: "damaged"},
	}}
	return s, p, &Watch{Slurm: s.Client(t), Proxyd: p, Now: func() time.Time { return at }}
}

var known = BuildParameters{
	Number: 5, Rules: sdk.Rules{Promised: [sdk.Tiers]float64{sdk.Premium: 0.95}},
	Tier: func(qos string) sdk.Tier {
		tier, err := sdk.ParseTier(qos)
		if err != nil {
			return sdk.Basic
		}
		return tier
	},
	Count:   func(sdk.JobID) (float64, time.Duration) { return 0.5, time.Minute },
	Account: func(string) float64 { return 0.25 },
	Action:  map[int64]string{2: "migrate"}, Held: map[int64]Hold{5: {"policy tiers", true}}, Acted: map[int64]time.Time{1: at.Add(-time.Hour)},
	Edited: map[int64]EditedRecord{2: {Record: jobrequest.Record{Asked: jobrequest.Request{Nodes: 2, TRESNode: "gres/gpu:2"}}}},
}

func TestBuild(t *testing.T) {
	for _, release := range []string{"22.05.8", "24.11.5", "26.05.3"} {
		t.Run(release, func(t *testing.T) {
			_, _, w := newSite(t, release)
			seen, err := w.Look(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			s := Build(seen, known)
			if err := s.Check(); err != nil {
				t.Fatal(err)
			}
			var got []string
			for i := range s.Nodes {
				got = append(got, fmt.Sprintf("%s state %d GPUs %d", s.Nodes[i].Name, s.Nodes[i].State, len(s.Nodes[i].GPUs)))
			}
			for i := range s.Jobs {
				j := &s.Jobs[i]
				line := fmt.Sprintf("%d state %d held %d GPUs %d of %d capsules %d", j.ID, j.State, j.HeldBy, j.GPUs, j.Request, j.Capsules)
				for _, share := range j.Shares {
					line += fmt.Sprintf(" [%d: %d x %b]", share.Node, share.Capsules, share.GPUs)
				}
				got = append(got, line)
			}
			want := []string{
				"n1 state 0 GPUs 4", "n2 state 0 GPUs 4", "n3 state 1 GPUs 2", "n4 state 2 GPUs 0",
				"1 state 3 held 0 GPUs 4 of 4 capsules 2 [0: 1 x 1001] [1: 1 x 11]",
				"2 state 3 held 0 GPUs 1 of 4 capsules 2 [1: 2 x 100]",
				"3 state 0 held 0 GPUs 2 of 2 capsules 1",
				"4 state 2 held 1 GPUs 2 of 2 capsules 1",
				"5 state 2 held 3 GPUs 2 of 2 capsules 1",
				"6 state 1 held 0 GPUs 2 of 2 capsules 1",
				"7 state 5 held 0 GPUs 0 of 2 capsules 1 [0: 1 x 0]",
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("jobs of the snapshot:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			fillDetails(t, s)
		})
	}
}

func fillDetails(t *testing.T, s *sdk.Snapshot) {
	t.Helper()
	one, two, three, six := &s.Jobs[0], &s.Jobs[1], &s.Jobs[2], &s.Jobs[5]
	if !one.Preemptable || two.Preemptable || !strings.Contains(two.Obstacle, "--singularity") || three.Preemptable {
		t.Errorf("preemptable: %v; %v %q; %v %q", one.Preemptable, two.Preemptable, two.Obstacle, three.Preemptable, three.Obstacle)
	}
	if c := one.Checkpoint; !c.At.Equal(at.Add(-time.Second)) || c.Bytes != 77 || c.Dump != 3*time.Second || !c.Measured {
		t.Errorf("checkpoint of job 1 = %+v", c)
	}
	if !reflect.DeepEqual(three.Required, []int32{0}) || !reflect.DeepEqual(three.Excluded, []int32{2}) || !reflect.DeepEqual(three.Features, []string{"fast", "big"}) {
		t.Errorf("nodes and features of job 3: %+v", three)
	}
	if six.Tier != sdk.Premium || six.Promised != 0.95 || six.Fraction != 0.5 {
		t.Errorf("tier and fraction of job 6: %+v", six)
	}
	if two.Action != "migrate" || !one.Acted.Equal(at.Add(-time.Hour)) || one.Limit != time.Hour || one.CPUs != 2 {
		t.Errorf("jobs 1 and 2 = %+v\n%+v", one, two)
	}
	if len(s.Partitions) != 1 || len(s.QOS) != 1 || s.QOS[0].Tier != sdk.Premium || len(s.Accounts) != 1 || s.Accounts[0].Fraction != 0.25 || s.Cluster == "" {
		t.Errorf("partitions %+v, QOS %+v, accounts %+v, cluster %q", s.Partitions, s.QOS, s.Accounts, s.Cluster)
	}
}

// TestSizeRange: the sizes to which a job may be shrunk and grow are its user's. The plugin makes "1-1"
// of "1".
func TestSizeRange(t *testing.T) {
	for gpus, want := range map[string][2]int{
		"": {4, 4}, "1": {1, 4}, "1-1": {1, 4}, "2-8": {2, 8}, "4-6": {4, 6}, "9-9": {4, 9}, "9": {4, 4}, "x": {4, 4}, "2-x": {2, 4}, "1--8": {1, 4}, "1-99": {1, 32},
	} {
		_, p, w := newSite(t, "26.05.3")
		p.gpus = gpus
		seen, err := w.Look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if j := Build(seen, known).Jobs[0]; [2]int{j.MinGPUs, j.MaxGPUs} != want || j.Request != 4 {
			t.Errorf("%q: %d to %d of %d GPUs; want %v of 4", gpus, j.MinGPUs, j.MaxGPUs, j.Request, want)
		}
	}
}

// TestPauseInPlace: a running job with software GPUs can be lent more, which takes a second. On real GPUs, and before
// its node has told of this run, each resize is a dump and a restore.
func TestPauseInPlace(t *testing.T) {
	for _, c := range []struct {
		name    string
		devices []string
		later   int64 // requeues since its node told
		want    time.Duration
	}{
		{"software GPUs", []string{softgpu.Name, softgpu.Name}, 0, time.Second},
		{"in the next run", []string{softgpu.Name}, 1, 0},
		{"real GPUs", []string{"NVIDIA H100"}, 0, 0},
		{"both", []string{softgpu.Name, "NVIDIA H100"}, 0, 0},
		{"no GPUs", nil, 0, 0},
	} {
		_, p, w := newSite(t, "26.05.3")
		p.gpus, p.devices = "1-8", c.devices
		seen, err := w.Look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		seen.Jobs[0].Restarts += c.later
		if j := Build(seen, known).Jobs[0]; j.PauseInPlace != c.want || j.State != sdk.Running {
			t.Errorf("%s: job %d, %v, stands still for %v, want %v", c.name, j.ID, j.State, j.PauseInPlace, c.want)
		}
	}
}

// TestNoSwapping: a job is not shrunk by policies to a size at which its ranks would be swapped, by its newest whole
// checkpoint; its full size is never in doubt.
func TestNoSwapping(t *testing.T) {
	const gib = 1 << 30
	for _, tt := range []struct {
		name    string
		made    []*rpc.Checkpoint
		least   int
		fullest []float64
	}{
		{"no checkpoint", nil, 1, nil},
		{"all that the ranks of a node hold is alike", []*rpc.Checkpoint{{GpuMemory: 16 * gib, GpuNeeds: []uint64{9 * gib, 8 * gib}}}, 2, []float64{0.5625, 0.5}},
		{"both nodes' fit on one GPU", []*rpc.Checkpoint{{GpuMemory: 16 * gib, GpuNeeds: []uint64{8 * gib, 7 * gib}}}, 1, []float64{0.5, 0.4375}},
		{"all on one GPU do not fit", []*rpc.Checkpoint{{GpuMemory: 16 * gib, GpuNeeds: []uint64{30 * gib, 15 * gib}}}, 4, []float64{1.875, 0.9375}},
		{"the newest counts", []*rpc.Checkpoint{
			{GpuMemory: 16 * gib, GpuNeeds: []uint64{30 * gib, 15 * gib}}, {GpuMemory: 16 * gib, GpuNeeds: []uint64{9 * gib, 8 * gib}},
		}, 2, []float64{0.5625, 0.5}},
		{"a damaged one does not", []*rpc.Checkpoint{
			{GpuMemory: 16 * gib, GpuNeeds: []uint64{30 * gib, 15 * gib}}, {GpuMemory: 16 * gib, GpuNeeds: []uint64{9 * gib, 8 * gib}, Problem: "lost"},
		}, 4, []float64{1.875, 0.9375}},
		{"not even its own size fits", []*rpc.Checkpoint{{GpuMemory: 16 * gib, GpuNeeds: []uint64{60 * gib, 30 * gib}}}, 4, []float64{3.75, 1.875}},
		{"an older release made it", []*rpc.Checkpoint{{}}, 1, nil},
	} {
		_, p, w := newSite(t, "26.05.3")
		p.gpus = "1-8"
		seen, err := w.Look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		label := Build(seen, known).Jobs[0].Label
		seen.Checkpoints = map[string][]*rpc.Checkpoint{label: tt.made}
		j := Build(seen, known).Jobs[0]
		if j.MinGPUs != tt.least || j.MaxGPUs != 8 {
			t.Errorf("%s: %d to %d GPUs on %d nodes, want %d to 8", tt.name, j.MinGPUs, j.MaxGPUs, j.Capsules, tt.least)
		}
		if !slices.Equal(j.Fullest, tt.fullest) {
			t.Errorf("%s: the fullest GPUs are %v, want %v", tt.name, j.Fullest, tt.fullest)
		}
	}
}

// A job that an action holds on its way is not held by a person: its time counts as waiting.
func TestHeldByAnAction(t *testing.T) {
	for kind, holder := range map[string]sdk.Holder{"migrate": sdk.HeldByPreemptd, "release": sdk.HeldByUser, "": sdk.HeldByUser} {
		_, _, w := newSite(t, "26.05.3")
		seen, err := w.Look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		k := known
		k.Action = map[int64]string{4: kind}
		if j, _ := Build(seen, k).Job(4); j.State != sdk.Held || j.HeldBy != holder {
			t.Errorf("%q: state %d, held by %d, want %d", kind, j.State, j.HeldBy, holder)
		}
	}
}

// In the steady state there are two requests for a look, however many jobs there are, and no request to proxyd.
func TestSteady(t *testing.T) {
	srv, p, w := newSite(t, "26.05.3")
	for range 3 {
		if _, err := w.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	before := len(srv.Requests())
	if _, err := w.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	asked := srv.Requests()[before:]
	if len(asked) != 2 || !strings.Contains(asked[0].Path, "/jobs") || !strings.Contains(asked[0].Query, "update_time=") {
		t.Errorf("requests of a look = %+v, want jobs and nodes", asked)
	}
	if want := map[int64]int{1: 1, 2: 1}; !reflect.DeepEqual(p.asked, want) {
		t.Errorf("proxyd was asked about jobs %v, want %v", p.asked, want)
	}
	// After a requeue proxyd is asked again: the new run may have no capsule.
	srv.EditJob(1, func(j *slurmrest.Job) { j.Restarts++ })
	if _, err := w.Look(t.Context()); err != nil || p.asked[1] != 2 {
		t.Errorf("after a requeue: %v; proxyd was asked %v", err, p.asked)
	}
}

// Nodes that an action gave a job are no wish of its user's; nodes that a person has asked for since are.
func TestPinned(t *testing.T) {
	_, _, w := newSite(t, "26.05.3")
	seen, err := w.Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		is   jobrequest.Record
		want []int32
	}{
		{"the user's", jobrequest.Record{Asked: jobrequest.Request{Required: "n2"}, Ours: jobrequest.Request{Required: "n2"}}, []int32{0}},
		{"ours", jobrequest.Record{Asked: jobrequest.Request{Required: "n2"}, Ours: jobrequest.Request{Required: "n1,n9"}}, []int32{1}},
		{"ours, of none", jobrequest.Record{Ours: jobrequest.Request{Required: "n9,n1"}}, nil},
	} {
		k := known
		k.Edited = map[int64]EditedRecord{3: {Record: c.is}}
		if j, _ := Build(seen, k).Job(3); !reflect.DeepEqual(j.Required, c.want) {
			t.Errorf("required nodes, %s = %v, want %v", c.name, j.Required, c.want)
		}
	}
}

// TestRoomPrefix: a reservation that keeps room for a job has the name by which policies and package plan know it.
func TestRoomPrefix(t *testing.T) {
	_, _, w := newSite(t, "26.05.3")
	seen, err := w.Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	k := known
	k.Rooms = map[int64][]string{3: {"n1"}}
	s := Build(seen, k)
	j, ok := s.Job(3)
	last := s.Reservations[len(s.Reservations)-1]
	if !ok || j.Reservation != sdk.RoomPrefix+"3" || last.Name != j.Reservation {
		t.Errorf("job in %q, reservation %q", j.Reservation, last.Name)
	}
}

// TestLeases: the shares of a lease are the borrower's, if both are of the same user and account and the lease runs;
// a lease that waits is no job that waits for room. A lease that a user submitted is known by proxyd's answer about
// its run.
func TestLeases(t *testing.T) {
	job := func(id int64, name, user, account string, state slurmrest.BaseState, index string) slurmrest.Job {
		j := slurmrest.Job{ID: id, Name: name, User: user, Account: account, State: slurmrest.State{Base: state}, Batch: true, NodeCount: slurmrest.Num(1), TRESPerNode: "gres/gpu:1"}
		if state == slurmrest.Running {
			j.Nodes, j.GRESDetail, j.TRESAllocated = "n1", []string{"gpu:1(IDX:" + index + ")"}, "cpu=1,gres/gpu=1"
		}
		return j
	}
	seen := Observation{Time: at, Nodes: []slurmrest.Node{{Name: "n1", State: slurmrest.NodeState{Base: "MIXED"}, GRES: "gpu:8"}}, Jobs: []slurmrest.Job{
		job(1, "train", "alice", "lab", slurmrest.Running, "0"),
		job(2, "lease-of-1", "alice", "lab", slurmrest.Running, "3"),
		job(3, "lease-of-1", "alice", "lab", slurmrest.Pending, ""),
		job(4, "lease-of-1", "bob", "lab", slurmrest.Running, "4"),
		job(5, "lease-of-1", "alice", "other", slurmrest.Running, "5"),
		job(6, "lease-of-6", "alice", "lab", slurmrest.Running, "6"),
		job(7, "lease-of-99", "alice", "lab", slurmrest.Pending, ""),
		job(8, "more", "alice", "lab", slurmrest.Running, "1"),
		job(9, "more", "alice", "lab", slurmrest.Pending, ""),
		job(10, "more", "alice", "other", slurmrest.Running, "2"),
		job(11, "more", "alice", "lab", slurmrest.Running, "7"),
	}, Protected: map[int64]Protection{8: {Lends: 1}, 9: {Lends: 1}, 10: {Lends: 1}, 11: {Lends: 1, Restarts: 1}}}
	var got []string
	s := Build(seen, BuildParameters{Tier: known.Tier, Count: known.Count, Account: known.Account})
	if err := s.Check(); err != nil {
		t.Error(err)
	}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		line := fmt.Sprintf("%d %d (%d leased) of %d", j.ID, j.GPUs, j.Leased, j.Request)
		for _, share := range j.Shares {
			line += fmt.Sprintf(" %b", share.GPUs)
		}
		got = append(got, line)
	}
	want := []string{
		"1 3 (2 leased) of 1 1011", "4 1 (0 leased) of 1 10000", "5 1 (0 leased) of 1 100000", "6 1 (0 leased) of 1 1000000", "7 1 (0 leased) of 1",
		"9 1 (0 leased) of 1", "10 1 (0 leased) of 1 100", "11 1 (0 leased) of 1 10000000",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestLeaseIsKnownByProxyd: a job that lends its GPUs is asked about until the lending has begun, and cannot be
// captured.
func TestLeaseIsKnownByProxyd(t *testing.T) {
	srv, p, w := newSite(t, "26.05.3")
	srv.EditJob(2, func(j *slurmrest.Job) { j.StartTime = at.Add(-time.Second) })
	p.lends = map[int64]*rpc.Lending{2: {Job: 1, Node: "n2"}}
	look := func() Protection {
		seen, err := w.Look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return seen.Protected[2]
	}
	if got := look(); got.Lends != 0 || got.Is {
		t.Errorf("before it has begun to lend: %+v", got)
	}
	p.lends[2].Gpus = []uint32{2}
	if got := look(); got.Lends != 1 || got.Is || got.Obstacle != "it lends its GPUs to job 1" {
		t.Errorf("when it lends: %+v", got)
	}
}

// TestSizedByPerson: no policy changes the size that a person chose for a job; a size that a policy chose may be
// taken back, and a job at its full size may be shrunk.
func TestSizedByPerson(t *testing.T) {
	_, _, w := newSite(t, "26.05.3")
	seen, err := w.Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name                 string
		asked                jobrequest.Request
		byPerson             bool
		inPlace              int64
		request, least, most int
	}{
		{"by a policy", jobrequest.Request{Nodes: 2, TRESNode: "gres/gpu:2"}, false, 0, 4, 4, 4},
		{"by a person", jobrequest.Request{Nodes: 2, TRESNode: "gres/gpu:2"}, true, 0, 2, 2, 2}, // as Slurm shows the job now
		{"by a person, and in a run before in place to the same", jobrequest.Request{Nodes: 2, TRESNode: "gres/gpu:2"}, true, 2, 2, 2, 2},
		{"by a person, and in a run before in place to more", jobrequest.Request{Nodes: 2, TRESNode: "gres/gpu:2"}, true, 3, 4, 4, 4},
	} {
		k := known
		by := jobrequest.Sizer{Editor: jobrequest.Editor{Restarts: -1}, InPlace: tt.inPlace}
		k.Edited = map[int64]EditedRecord{2: {Record: jobrequest.Record{Asked: tt.asked, SizedBy: by}, SizedByPerson: tt.byPerson}}
		if j, _ := Build(seen, k).Job(2); j.Request != tt.request || j.MinGPUs != tt.least || j.MaxGPUs != tt.most {
			t.Errorf("sized %s: asked for %d, from %d to %d; want %d, %d to %d", tt.name, j.Request, j.MinGPUs, j.MaxGPUs, tt.request, tt.least, tt.most)
		}
	}
}

// TestSizedInPlace: no policy changes the size that a person gave a running job by leases, or by their end, as long
// as that is the job's size in that run.
func TestSizedInPlace(t *testing.T) {
	for _, tt := range []struct {
		name        string
		by          jobrequest.Sizer
		byPerson    bool
		lent        bool
		least, most int
	}{
		{"by a person, with a lease", jobrequest.Sizer{Editor: jobrequest.Editor{Restarts: 3}, InPlace: 2}, true, true, 2, 2},
		{"by a person, without", jobrequest.Sizer{Editor: jobrequest.Editor{Restarts: 3}, InPlace: 1}, true, false, 1, 1},
		{"by a policy", jobrequest.Sizer{Editor: jobrequest.Editor{Restarts: 3}, InPlace: 2}, false, true, 1, 4},
		{"in the run before", jobrequest.Sizer{Editor: jobrequest.Editor{Restarts: 2}, InPlace: 1}, true, false, 1, 4},
		{"and the lease has ended", jobrequest.Sizer{Editor: jobrequest.Editor{Restarts: 3}, InPlace: 2}, true, false, 1, 4},
	} {
		job := func(id int64, name string) slurmrest.Job {
			return slurmrest.Job{
				ID: id, Name: name, User: "alice", Account: "lab", State: slurmrest.State{Base: slurmrest.Running}, Batch: true, Restarts: 3, NodeCount: slurmrest.Num(1),
				TRESPerNode: "gres/gpu:1", Nodes: "n1", GRESDetail: []string{fmt.Sprintf("gpu:1(IDX:%d)", id)}, TRESAllocated: "cpu=1,gres/gpu=1",
			}
		}
		seen := Observation{
			Time: at, Nodes: []slurmrest.Node{{Name: "n1", State: slurmrest.NodeState{Base: "MIXED"}, GRES: "gpu:8"}}, Jobs: []slurmrest.Job{job(1, "train")},
			Protected: map[int64]Protection{1: {Is: true, Restarts: 3, GPUs: "1-4"}},
		}
		if tt.lent {
			seen.Jobs = append(seen.Jobs, job(2, "lease-of-1"))
		}
		asked := jobrequest.Of(&seen.Jobs[0])
		k := BuildParameters{Tier: known.Tier, Count: known.Count, Account: known.Account, Edited: map[int64]EditedRecord{
			1: {Record: jobrequest.Record{Asked: asked, Ours: asked, SizedBy: tt.by}, SizedByPerson: tt.byPerson},
		}}
		if j, _ := Build(seen, k).Job(1); j.Request != 1 || j.MinGPUs != tt.least || j.MaxGPUs != tt.most {
			t.Errorf("sized %s: asked for %d, from %d to %d; want 1, %d to %d", tt.name, j.Request, j.MinGPUs, j.MaxGPUs, tt.least, tt.most)
		}
	}
}

// With a cap, power is estimated from the GPUs that jobs hold; without a cap, no power is reported.
func TestPower(t *testing.T) {
	_, _, w := newSite(t, "26.05.3")
	seen, err := w.Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s := Build(seen, known); len(s.Power.Caps) != 0 || s.Nodes[0].Watts != 0 || s.Nodes[0].GPUs[0].Watts != 0 {
		t.Errorf("without a cap: power %+v, node %+v, want no caps and no watts", s.Power, s.Nodes[0])
	}
	k := known
	k.Power = Power{Cap: 1000, Busy: 300, Idle: 50}
	s := Build(seen, k)
	var watts []float64
	for i := range s.Nodes {
		watts = append(watts, s.Nodes[i].Watts)
	}
	// On n1 two GPUs are held, on n2 three, on n3 no GPU; n4 is down.
	if !reflect.DeepEqual(watts, []float64{700, 950, 100, 0}) || len(s.Power.Caps) != 1 || s.Power.Caps[0].Watts != 1000 || s.Nodes[0].GPUs[0].Watts != 300 || s.Nodes[0].GPUs[1].Watts != 50 {
		t.Errorf("watts of the nodes %v, power %+v, GPUs of n1 %+v", watts, s.Power, s.Nodes[0].GPUs)
	}
}

// lookAtProtection looks once, and returns the Protection of a job.
func lookAtProtection(t *testing.T, w *Watch, job int64) Protection {
	t.Helper()
	seen, err := w.Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return seen.Protected[job]
}

// A job that has just begun may have no capsule yet: preemptd asks again, until the job has a capsule or is known to
// have none.
func TestJustBegun(t *testing.T) {
	srv, p, w := newSite(t, "26.05.3")
	now := at
	w.Now = func() time.Time { return now }
	srv.EditJob(2, func(j *slurmrest.Job) { j.StartTime = at.Add(-time.Second) })
	look := func() Protection { return lookAtProtection(t, w, 2) }
	twice := func() bool { look(); return look().Is }
	if twice() || p.asked[2] != 2 || p.asked[1] != 1 {
		t.Errorf("proxyd was asked %v, want twice about job 2", p.asked)
	}
	p.protected[2] = true
	if !twice() || p.asked[2] != 3 {
		t.Errorf("proxyd was asked %v, want three times about job 2", p.asked)
	}
	p.protected[2] = false
	srv.EditJob(2, func(j *slurmrest.Job) { j.Restarts++ })
	now = at.Add(time.Hour)
	if twice() || p.asked[2] != 4 {
		t.Errorf("proxyd was asked %v, want four times about job 2", p.asked)
	}
}

// TestCapsulesLater: of a run that resumes, its node knows the checkpoints before the capsules are there. How few
// GPUs the user allows is known with the capsules, so the job is asked about until then: for a minute, and when a
// node leads the run.
func TestCapsulesLater(t *testing.T) {
	srv, p, w := newSite(t, "26.05.3")
	p.gpus = "2-4"
	now, led := at, map[int64]LedRun{}
	w.Now, w.Led = func() time.Time { return now }, func() map[int64]LedRun { return led }
	look := func() sdk.Job {
		t.Helper()
		seen, err := w.Look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return Build(seen, known).Jobs[0]
	}
	if j := look(); !j.Preemptable || j.MinGPUs != 2 {
		t.Fatalf("before the requeue: %+v", j)
	}
	srv.EditJob(1, func(j *slurmrest.Job) { j.Restarts++; j.StartTime = at })
	p.waiting = map[int64]bool{1: true}
	for _, want := range []string{"its nodes have not made its capsules yet", "its nodes have no capsules of this run"} {
		if j := look(); j.Preemptable || j.Obstacle != want {
			t.Errorf("without capsules: %+v, want %q", j, want)
		}
		now = now.Add(time.Hour)
	}
	if p.waiting = nil; look().Preemptable {
		t.Error("proxyd was asked again, although no node leads the run")
	}
	led[1] = LedRun{Restarts: 1}
	if j := look(); !j.Preemptable || j.MinGPUs != 2 || j.MaxGPUs != 4 {
		t.Errorf("with capsules: %+v", j)
	}
}

// TestLedLater: a run with capsules that take longer than usual is asked about when a node leads the run.
func TestLedLater(t *testing.T) {
	_, p, w := newSite(t, "26.05.3")
	led := map[int64]LedRun{}
	w.Led = func() map[int64]LedRun { return led }
	look := func() Protection { return lookAtProtection(t, w, 2) }
	p.protected[2] = false
	if look(); look().Is || p.asked[2] != 1 {
		t.Fatalf("proxyd was asked %v, want once about job 2", p.asked)
	}
	p.protected[2], led[2] = true, LedRun{}
	if !look().Is || p.asked[2] != 2 {
		t.Errorf("proxyd was asked %v, want twice about job 2", p.asked)
	}
}

// TestObstacleLater: an obstacle that a node finds later in a job of its own is known, and gone when it is gone
// there; a run before this one, and a job that is not protected, are left alone. No proxyd is asked for that.
func TestObstacleLater(t *testing.T) {
	srv, p, w := newSite(t, "26.05.3")
	var led map[int64]LedRun
	w.Led = func() map[int64]LedRun { return led }
	look := func() Observation {
		t.Helper()
		seen, err := w.Look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return seen
	}
	before := look()
	if p := before.Protected[1]; !p.Is || p.Obstacle != "" {
		t.Fatalf("protection of job 1 before = %+v", p)
	}
	led = map[int64]LedRun{1: {Obstacle: "is connected to 192.0.2.7:443"}, 2: {Obstacle: "a terminal"}, 99: {Obstacle: "a terminal"}}
	now := look()
	if s := Build(now, known); s.Jobs[0].Preemptable || s.Jobs[0].Obstacle != "is connected to 192.0.2.7:443" {
		t.Errorf("job 1 with an obstacle = %+v", s.Jobs[0])
	}
	if p := now.Protected[2]; p.Is || p.Obstacle != before.Protected[2].Obstacle {
		t.Errorf("a job without protection: %+v", p)
	}
	if before.Protected[1].Obstacle != "" {
		t.Error("Look changed the Seen of an earlier look")
	}
	led = nil // its node does not answer: the last answer holds
	if p := look().Protected[1]; p.Obstacle == "" {
		t.Errorf("protection of job 1 while its node does not answer = %+v", p)
	}
	led = map[int64]LedRun{1: {}}
	if s := Build(look(), known); !s.Jobs[0].Preemptable {
		t.Errorf("the obstacle is gone, and the job cannot be preempted: %+v", s.Jobs[0])
	}
	srv.EditJob(1, func(j *slurmrest.Job) { j.Restarts++ })
	led = map[int64]LedRun{1: {Obstacle: "of the run before"}}
	if p := look().Protected[1]; p.Obstacle != "" {
		t.Errorf("after another run has begun: %+v", p)
	}
	if p.asked[1] != 2 {
		t.Errorf("proxyd was asked %v, want twice about job 1", p.asked)
	}
}

// TestProtectionKept: a job's protection holds while the job waits after a requeue, and until its proxyd was asked
// about its new run. Whether a job that has not run can be captured is not known, and the snapshot says so.
func TestProtectionKept(t *testing.T) {
	srv, p, w := newSite(t, "26.05.3")
	look := func() []sdk.Job {
		t.Helper()
		seen, err := w.Look(t.Context())
		if err != nil && !errors.As(err, new(*ProxydError)) {
			t.Fatal(err)
		}
		return Build(seen, known).Jobs
	}
	const waits = "it has not run yet: obstacles to a checkpoint are known once it runs"
	if all := look(); !all[0].Preemptable || all[1].Obstacle != "runs without --singularity" || all[2].Obstacle != waits {
		t.Errorf("while the jobs run: %+v", all[:3])
	}
	requeue := func(j *slurmrest.Job) {
		j.Restarts++
		j.State, j.Nodes = slurmrest.State{Base: slurmrest.Pending}, ""
	}
	srv.EditJob(1, requeue)
	srv.EditJob(2, requeue)
	if all := look(); !all[0].Preemptable || all[0].Obstacle != "" || all[1].Obstacle != "runs without --singularity" {
		t.Errorf("while the jobs wait: %+v", all[:2])
	}
	p.away = true
	srv.EditJob(1, func(j *slurmrest.Job) { j.State, j.Nodes = slurmrest.State{Base: slurmrest.Running}, "n1" })
	if all := look(); all[0].Preemptable || all[0].Obstacle != "its node's proxyd has not answered yet" {
		t.Errorf("when the job runs again on a silent node: %+v", all[0])
	}
	p.away = false
	if all := look(); !all[0].Preemptable || p.asked[1] != 3 {
		t.Errorf("its node answers: %+v, asked %v", all[0], p.asked)
	}
}

// A proxyd that is away does not keep Slurm from being seen; the proxyd is asked again.
func TestProxydAway(t *testing.T) {
	_, p, w := newSite(t, "26.05.3")
	p.away = true
	seen, err := w.Look(t.Context())
	var away *ProxydError
	if !errors.As(err, &away) || !errors.Is(err, rpc.ErrUnreachable) || len(seen.Jobs) != 8 {
		t.Fatalf("Look while proxyd is away: %v, %d jobs, want 8 jobs", err, len(seen.Jobs))
	}
	if s := Build(seen, known); s.Jobs[0].Preemptable || s.Jobs[0].Obstacle != "its node's proxyd has not answered yet" {
		t.Errorf("job 1 while proxyd is away = %+v", s.Jobs[0])
	}
	p.away = false
	if seen, err = w.Look(t.Context()); err != nil || !seen.Protected[1].Is {
		t.Errorf("after proxyd came back: %v, protected %+v", err, seen.Protected)
	}
}

func TestSlurmAway(t *testing.T) {
	srv, _, w := newSite(t, "26.05.3")
	if _, err := w.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	srv.Fail(slurmresttest.Fault{Path: "nodes", Times: 9, Drop: true})
	if _, err := w.Look(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "nodes: ") {
		t.Errorf("Look without nodes: %v", err)
	}
}

// Texts that Slurm writes can be of any form: for any text, Check accepts the snapshot.
func FuzzBuild(f *testing.F) {
	f.Add("gpu:a100:2(IDX:0,3)", "n[1-2]", "gpu:a100:4(S:0-1)", "gres/gpu:a100:2", "cpu=8,gres/gpu=4", int64(2))
	f.Add("gpu:2(IDX:N/A)", "n1", "gpu:2", "gres/gpu", "gres/gpu=99", int64(0))
	f.Fuzz(func(t *testing.T, detail, nodes, gres, tres, allocated string, count int64) {
		job := func(id int64) slurmrest.Job {
			return slurmrest.Job{
				ID: id, State: slurmrest.State{Base: slurmrest.Running}, Nodes: nodes, GRESDetail: []string{detail, detail},
				TRESPerNode: tres, TRESAllocated: allocated, NodeCount: slurmrest.Num(count), Tasks: slurmrest.Num(2),
			}
		}
		s := Build(Observation{
			Time: at, Jobs: []slurmrest.Job{job(2), job(1), job(2)},
			Nodes: []slurmrest.Node{{Name: "n1", GRES: gres, State: slurmrest.NodeState{Base: "IDLE"}}, {Name: "n2", GRES: gres}, {Name: "n1"}},
		}, known)
		if err := s.Check(); err != nil {
			t.Error(err)
		}
	})
}
