// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/preemptd/action"
	"github.com/singularity-slurm/singularity-slurm/preemptd/jobrequest"
	"github.com/singularity-slurm/singularity-slurm/preemptd/journal"
	"github.com/singularity-slurm/singularity-slurm/preemptd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge/mungetest"
	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
	"github.com/singularity-slurm/singularity-slurm/slurmrestd-client/slurmresttest"
)

// Users of the tests; no machine needs accounts for them.
const (
	alice = 4_000_001_001
	bob   = 4_000_001_002
	carol = 4_000_001_003 // an operator, as the site says
	dave  = 4_000_001_004 // an operator, as Slurm says
	super = 4_000_001_005 // SlurmUser
)

var names = map[uint32]string{alice: "alice", bob: "bob", carol: "carol", dave: "dave", super: "slurmer"}

// site is a server with a real journal, a slurmrestd and no loop: the tests are the loop.
type site struct {
	*testing.T
	srv     *slurmresttest.Server
	journal *journal.Journal
	realm   *mungetest.Realm
	address string
	woken   chan struct{}
	// snapshot is the last snapshot that policies saw.
	snapshot []byte
	listed   atomic.Int32 // how often all jobs were
	server   *Server
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{T: t, srv: slurmresttest.Start(t, slurmresttest.Options{}), realm: mungetest.NewRealm(), woken: make(chan struct{}, 100)}
	for _, n := range []string{"n1", "n2", "n3"} {
		s.srv.AddNode(slurmrest.Node{Name: n})
	}
	j, err := journal.Open(t.Context(), filepath.Join(t.TempDir(), "j.db"), "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	if err := j.Await(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	s.journal = j
	server := &Server{
		opt: Options{
			Version: "1.0", Cluster: "test", Journal: j, Slurm: s.srv.Client(t), Poll: time.Millisecond,
			Log:      slog.New(slog.DiscardHandler),
			Wake:     func() { s.woken <- struct{}{} },
			Snapshot: func() ([]byte, error) { return s.snapshot, nil },
			Try: func(_ context.Context, req *rpc.TryRequest) (*rpc.TryReply, error) {
				return &rpc.TryReply{Cluster: fmt.Sprint(len(req.GetSnapshot()))}, nil
			},
			State: func() State {
				return State{
					Problems: []string{"a problem"}, Users: s.ownerOf,
					Jobs: func() []*rpc.Job {
						s.listed.Add(1)
						return []*rpc.Job{{Id: 1, User: "alice"}}
					},
					Unkept:   func() []string { return []string{"premium: 96 GPUs are promised, 64 are there"} },
					Standing: func(int64) *rpc.Standing { return &rpc.Standing{Waits: "its turn"} },
				}
			},
		},
		people: newPeople([]string{"carol"}, Programs{"sacctmgr", "scontrol"}, "test"),
	}
	server.people.ask = answerCommand
	s.server = server
	s.address = startServer(t, server, s.realm.As(0, 0))
	return s
}

// answerCommand gives the output of id(1) and sacctmgr.
func answerCommand(_ context.Context, program string, args ...string) (string, error) {
	for uid, name := range names {
		if program == "id" && args[1] == fmt.Sprintf("+%d", uid) {
			return name, nil
		}
	}
	if program == "sacctmgr" && args[4] == "name=dave" {
		return "Operator", nil
	}
	if program == "scontrol" {
		return "SlurmUID                = x\nSlurmUser               = slurmer(64030)\nSlurmdUser = root(0)", nil
	}
	if program == "sacctmgr" && args[3] == "assoc" {
		if !slices.Contains(args, "cluster=test") { // then squeue lists the jobs of all clusters
			return "standard,basic\nbasic,premium", nil
		}
		return "standard,basic\nbasic", nil
	}
	return "None", nil
}

func (s *site) ownerOf(job int64) string {
	j, _ := s.srv.Job(job)
	return names[uint32(j.UserID)]
}

// addJob adds a job that runs on two nodes with two GPUs each.
func (s *site) addJob(uid int64) int64 {
	id := s.srv.AddJob(slurmrest.Job{
		UserID: uid, Batch: true, Requeueable: true, NodeCount: slurmrest.Num(2), Tasks: slurmrest.Num(4), TRESPerNode: "gres/gpu:a100:2",
	})
	s.srv.StartJob(id, "n1", "n2")
	return id
}

func (s *site) clientOf(uid uint32) *rpc.Client {
	s.Helper()
	c, err := rpc.Dial(s.address, "n7", s.realm.As(uid, uid))
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { c.Close() })
	return c
}

func startServer(t *testing.T, server *Server, coder munge.Coder) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := server.Gated(coder)
	go g.Serve(l)
	t.Cleanup(g.Stop)
	return l.Addr().String()
}

// endAction ends an action as the loop would have done.
func (s *site) endAction(id int64, state journal.State, problem string) {
	s.Helper()
	a, err := s.journal.Action(s.Context(), id)
	if err != nil {
		s.Fatal(err)
	}
	a.State, a.Problem = state, problem
	if err := s.journal.Save(s.Context(), &a, "ended"); err != nil {
		s.Fatal(err)
	}
}

// TestAct: a request becomes an action, is followed to its end, and is in the history.
func TestAct(t *testing.T) {
	s := newSite(t)
	id := s.addJob(alice)
	c := s.clientOf(alice)
	begun, err := c.Act(t.Context(), &rpc.ActRequest{Kind: "migrate", Job: fmt.Sprint(id), Nodes: []string{"n[2-3]"}, Reason: "a noisy fan"})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.woken:
	default:
		t.Error("the loop was not woken")
	}
	a, err := s.journal.Action(t.Context(), begun.GetId())
	if err != nil || a.Who != "alice" || a.Why != "a noisy fan" || a.Kind != "migrate" || a.Job != id || string(a.Args) != `{"nodes":["n2","n3"]}` {
		t.Fatalf("action in the journal: %v, %+v, args %s", err, a, a.Args)
	}
	if _, err := c.Act(t.Context(), &rpc.ActRequest{Kind: "preempt", Job: fmt.Sprint(id)}); !errors.Is(err, rpc.ErrBusy) {
		t.Errorf("two at a time: %v", err)
	}
	var steps []string
	ended, err := c.Watch(t.Context(), a.ID, func(m *rpc.Action) {
		for _, l := range m.GetLines() {
			steps = append(steps, l.GetStep()+"/"+l.GetState())
		}
		switch len(steps) {
		case 1:
			a.Step = "checkpoint"
			if err := s.journal.Save(t.Context(), &a, ""); err != nil {
				t.Error(err)
			}
		case 2:
			s.endAction(a.ID, journal.Undone, "no room")
		}
	})
	if err != nil || ended.GetState() != "undone" || ended.GetProblem() != "no room" || strings.Join(steps, " ") != "/going checkpoint/going checkpoint/undone" {
		t.Errorf("Watch: %v, %v, steps %q", err, ended, steps)
	}
	shown, err := c.Show(t.Context(), a.ID)
	if err != nil || len(shown.GetLines()) != 3 {
		t.Errorf("Show: %v, %v, want 3 lines", err, shown)
	}
	for _, name := range []string{"", fmt.Sprint(id)} {
		all, err := c.History(t.Context(), name, 0)
		if err != nil || len(all.GetActions()) != 1 || all.GetActions()[0].GetId() != a.ID {
			t.Errorf("History of job %q: %v, %v, want the one action", name, err, all)
		}
		if stands := all.GetStanding(); (stands != nil) != (name != "") || stands.GetWaits() != map[bool]string{true: "its turn"}[name != ""] {
			t.Errorf("History of job %q: standing = %v", name, stands)
		}
	}
	if all, err := c.History(t.Context(), "4711", 0); !errors.Is(err, rpc.ErrNoJob) {
		t.Errorf("a job that is not there: %v %v", err, all)
	}
	// The owner of a job that Slurm has forgotten is known by the journal.
	for _, note := range []journal.Event{
		{Job: 4713, User: "alice", Restarts: 1, What: "requeued", At: time.Unix(1, 0), Text: "by itself"},
		{Job: 4714, User: "bob", Restarts: 1, What: "requeued", At: time.Unix(1, 0), Text: "by itself"},
		{Job: 4715, Restarts: 1, What: "requeued", At: time.Unix(1, 0), Text: "recorded by an older release"},
	} {
		if err := s.journal.Note(t.Context(), note); err != nil {
			t.Fatal(err)
		}
	}
	ofPolicy, err := s.journal.Begin(t.Context(), journal.Request{Kind: "preempt", Job: 4713, User: "alice", Args: []byte("{}"), Who: "policy tiers", Why: "room"})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "4713"} {
		all, err := c.History(t.Context(), name, 0)
		if err != nil || len(all.GetEvents()) != 1 || all.GetEvents()[0].GetJob() != 4713 || all.GetActions()[0].GetId() != ofPolicy.ID {
			t.Errorf("History of job %q, after Slurm has forgotten job 4713: %v, %v, want its event and its action", name, err, all)
		}
	}
	if all, err := s.clientOf(bob).History(t.Context(), "4713", 0); !errors.Is(err, rpc.ErrNoJob) {
		t.Errorf("History of job 4713, of alice, to another user: %v, %v", err, all)
	}
	// Without that, the caller sees the actions that the caller asked for.
	forgotten, err := s.journal.Begin(t.Context(), journal.Request{Kind: "hold", Job: 4712, Args: []byte("{}"), Who: "alice", Why: "asked"})
	if err != nil {
		t.Fatal(err)
	}
	if all, err := c.History(t.Context(), "4712", 0); err != nil || len(all.GetActions()) != 1 || all.GetActions()[0].GetId() != forgotten.ID || all.GetStanding() != nil {
		t.Errorf("a job that is forgotten: %v %v", err, all)
	}
	if all, err := s.clientOf(bob).History(t.Context(), "4712", 0); !errors.Is(err, rpc.ErrNoJob) {
		t.Errorf("a job that is forgotten, to another user: %v %v", err, all)
	}
}

// TestSubmitted: with how many GPUs a job was submitted is told where another number counts now.
func TestSubmitted(t *testing.T) {
	s := newSite(t)
	id := s.addJob(alice)
	now := int32(0)
	s.server.opt.State = func() State {
		return State{Users: s.ownerOf, Standing: func(int64) *rpc.Standing { return &rpc.Standing{Requested: now} }}
	}
	for _, c := range []struct {
		asked           string // the record of an action; "": no action has edited the job
		requested, want int32
	}{
		{"", 2, 0}, {`{"nodes":2,"tresNode":"gres/gpu:1"}`, 1, 2}, {`{"nodes":2,"tresNode":"gres/gpu:1"}`, 2, 0}, {`{"nodes":2}`, 1, 0},
	} {
		if c.asked != "" {
			if err := s.journal.SetOrigin(t.Context(), id, json.RawMessage(`{"asked":`+c.asked+`}`)); err != nil {
				t.Fatal(err)
			}
		}
		now = c.requested
		all, err := s.clientOf(alice).History(t.Context(), fmt.Sprint(id), 0)
		if got := all.GetStanding().GetSubmitted(); err != nil || got != c.want {
			t.Errorf("asked %s, counted by %d: submitted with %d, want %d (%v)", c.asked, c.requested, got, c.want, err)
		}
	}
}

// TestGone: a client that stops watching stops no action.
func TestGone(t *testing.T) {
	s := newSite(t)
	begun, err := s.clientOf(alice).Act(t.Context(), &rpc.ActRequest{Kind: "preempt", Job: fmt.Sprint(s.addJob(alice))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := s.clientOf(alice).Watch(ctx, begun.GetId(), func(*rpc.Action) { cancel() }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if a, err := s.journal.Action(t.Context(), begun.GetId()); err != nil || a.State != journal.Going {
		t.Errorf("after the watcher went away: %v, action %+v, want going", err, a)
	}
}

func TestRefused(t *testing.T) {
	s := newSite(t)
	id := fmt.Sprint(s.addJob(alice))
	array := s.srv.AddJob(slurmrest.Job{UserID: alice, Array: slurmrest.Array{JobID: 90, Task: slurmrest.Num(3)}, Batch: true})
	for name, c := range map[string]struct {
		who  uint32
		req  *rpc.ActRequest
		kind error
		said string
	}{
		"another's job":     {bob, &rpc.ActRequest{Kind: "preempt", Job: id}, rpc.ErrDenied, "belongs to another user"},
		"stranger":          {4_111_111_111, &rpc.ActRequest{Kind: "preempt", Job: id}, rpc.ErrDenied, "belongs to another user"},
		"unknown job":       {alice, &rpc.ActRequest{Kind: "preempt", Job: "4711"}, rpc.ErrNoJob, "job 4711"},
		"no job":            {alice, &rpc.ActRequest{Kind: "preempt", Job: "x"}, rpc.ErrInvalid, `job "x"`},
		"array":             {alice, &rpc.ActRequest{Kind: "preempt", Job: "90"}, rpc.ErrInvalid, "is an array"},
		"unknown node":      {alice, &rpc.ActRequest{Kind: "migrate", Job: id, Nodes: []string{"n[3-4]"}}, rpc.ErrInvalid, `node "n4"`},
		"bad host list":     {alice, &rpc.ActRequest{Kind: "migrate", Job: id, Avoid: []string{"n[3-"}}, rpc.ErrInvalid, "host list"},
		"both":              {alice, &rpc.ActRequest{Kind: "migrate", Job: id, Nodes: []string{"n1"}, Avoid: []string{"n1"}}, rpc.ErrInvalid, "both"},
		"there already":     {alice, &rpc.ActRequest{Kind: "migrate", Job: id, Nodes: []string{"n[1-2]"}}, rpc.ErrNothingToDo, "runs on n1,n2 already: there is nothing to do"},
		"away already":      {alice, &rpc.ActRequest{Kind: "migrate", Job: id, Avoid: []string{"n3"}}, rpc.ErrNothingToDo, "runs on n1,n2 already: there is nothing to do"},
		"no nodes":          {alice, &rpc.ActRequest{Kind: "migrate", Job: id}, rpc.ErrInvalid, "name nodes"},
		"no size":           {alice, &rpc.ActRequest{Kind: "resize", Job: id}, rpc.ErrInvalid, "say how many"},
		"not for people":    {0, &rpc.ActRequest{Kind: "place", Job: id}, rpc.ErrInvalid, "want one of preempt"},
		"reason of 2 lines": {alice, &rpc.ActRequest{Kind: "preempt", Job: id, Reason: "a\nb"}, rpc.ErrInvalid, "one line"},
		"QOS of others":     {alice, &rpc.ActRequest{Kind: "requeue", Job: id, Qos: "premium"}, rpc.ErrDenied, "gives alice no QOS premium: basic, standard"},
		"no QOS":            {alice, &rpc.ActRequest{Kind: "requeue", Job: id}, rpc.ErrInvalid, "name the QOS"},
		"more nodes":        {alice, &rpc.ActRequest{Kind: "resize", Job: id, NodeCount: 3}, rpc.ErrDenied, "asked for 2 nodes and 4 GPUs"},
		"nodes for GPUs":    {alice, &rpc.ActRequest{Kind: "resize", Job: id, NodeCount: 3, Gpus: 1}, rpc.ErrDenied, "asked for 2 nodes and 4 GPUs"},
		"more GPUs":         {alice, &rpc.ActRequest{Kind: "resize", Job: id, Gpus: 3}, rpc.ErrDenied, "asked for 2 nodes and 4 GPUs"},
		"to more nodes":     {alice, &rpc.ActRequest{Kind: "migrate", Job: id, Nodes: []string{"n[1-3]"}}, rpc.ErrDenied, "only operators"},
	} {
		_, err := s.clientOf(c.who).Act(t.Context(), c.req)
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.said) {
			t.Errorf("Act %s: %v, want a refusal", name, err)
		}
	}
	if all, err := s.journal.History(t.Context(), 0, 10); err != nil || len(all) != 0 {
		t.Errorf("after refused requests: %v, history %v, want none", err, all)
	}
	if _, err := s.clientOf(alice).Act(t.Context(), &rpc.ActRequest{Kind: "preempt", Job: "90_3"}); err != nil {
		t.Errorf("task of an array, job %d: %v", array, err)
	}
}

// TestLendingHint: the owner of a job may not have the job resized beyond its request, and is told how to lend
// GPUs to the job.
func TestLendingHint(t *testing.T) {
	s := newSite(t)
	two := s.addJob(alice)
	one := s.srv.AddJob(slurmrest.Job{UserID: alice, Batch: true, NodeCount: slurmrest.Num(1), Tasks: slurmrest.Num(1), TRESPerNode: "gres/gpu:1"})
	s.srv.StartJob(one, "n3")
	waits := s.srv.AddJob(slurmrest.Job{UserID: alice, Batch: true, NodeCount: slurmrest.Num(1), Tasks: slurmrest.Num(1), TRESPerNode: "gres/gpu:1"})
	usable := map[int64]int64{}
	s.server.opt.UsableGPUs = func(_ context.Context, job *slurmrest.Job) (int64, error) {
		if usable[job.ID] < 0 {
			return 0, &jobrequest.SizeError{Text: "it is a lease"}
		}
		return usable[job.ID], nil
	}
	lease := "you can lend it %s yourself, up to the MAX of its --singularity-gpus=MIN-MAX: " +
		"sbatch --gpus-per-node=%d --nodelist=%s --singularity-lease=%d --wrap 'exec sleep infinity'"
	const reached = "its MAX is reached, so that no lease gives it more: its programs see %s, and it has as many; " +
		"a job that is to grow further is submitted with a larger MAX in --singularity-gpus=MIN-MAX"
	for name, c := range map[string]struct {
		req    *rpc.ActRequest
		usable int64 // on each node
		hint   string
	}{
		"a node":            {&rpc.ActRequest{Job: fmt.Sprint(one), Gpus: 3}, 0, fmt.Sprintf(lease, "2 GPUs", 2, "n3", one)},
		"two nodes":         {&rpc.ActRequest{Job: fmt.Sprint(two), Gpus: 3}, 4, fmt.Sprintf(lease+", and the like for its other nodes", "1 GPU", 1, "n1", two)},
		"less than it says": {&rpc.ActRequest{Job: fmt.Sprint(one), Gpus: 9}, 4, fmt.Sprintf(lease, "3 GPUs", 3, "n3", one)},
		"MAX is reached":    {&rpc.ActRequest{Job: fmt.Sprint(one), Gpus: 3}, 1, fmt.Sprintf(reached, "1 GPU")},
		"of two nodes":      {&rpc.ActRequest{Job: fmt.Sprint(two), Gpus: 3}, 2, fmt.Sprintf(reached, "2 GPUs on each node")},
		"a lease":           {&rpc.ActRequest{Job: fmt.Sprint(one), Gpus: 3}, -1, "it is a lease"},
		"more nodes":        {&rpc.ActRequest{Job: fmt.Sprint(one), NodeCount: 2}, 1, ""},
		"it waits":          {&rpc.ActRequest{Job: fmt.Sprint(waits), Gpus: 2}, 1, ""},
	} {
		c.req.Kind = "resize"
		usable[one], usable[two] = c.usable, c.usable
		_, err := s.clientOf(alice).Act(t.Context(), c.req)
		var told *rpc.Error
		if !errors.Is(err, rpc.ErrDenied) || !errors.As(err, &told) || told.Hint != c.hint || !strings.Contains(err.Error(), "not permitted: job ") {
			t.Errorf("%s: %v\n%+v\nwant the hint: %s", name, err, told, c.hint)
		}
	}
}

// TestLeasedSize: the owner may give back a part of the GPUs that an operator had leases lend to the job, and have no
// more than the job has.
func TestLeasedSize(t *testing.T) {
	s := newSite(t)
	id := s.srv.AddJob(slurmrest.Job{UserID: alice, Batch: true, NodeCount: slurmrest.Num(1), Tasks: slurmrest.Num(1), TRESPerNode: "gres/gpu:1"})
	s.srv.StartJob(id, "n3")
	leased := int32(2)
	s.server.opt.State = func() State {
		return State{Users: s.ownerOf, Standing: func(int64) *rpc.Standing { return &rpc.Standing{Gpus: 1 + leased, Leased: leased} }}
	}
	resize := func(gpus int64) error {
		a, err := s.clientOf(alice).Act(t.Context(), &rpc.ActRequest{Kind: "resize", Job: fmt.Sprint(id), Gpus: gpus})
		if err == nil {
			s.endAction(a.GetId(), journal.Done, "")
		}
		return err
	}
	if err := resize(4); !errors.Is(err, rpc.ErrDenied) || !strings.Contains(err.Error(), "asked for 1 node and 1 GPU") {
		t.Errorf("resize from 3 to 4 GPUs by the owner: %v", err)
	}
	if err := resize(2); err != nil {
		t.Errorf("resize from 3 to 2 GPUs by the owner: %v", err)
	}
	leased = 0
	if err := resize(2); !errors.Is(err, rpc.ErrDenied) {
		t.Errorf("resize from 1 to 2 GPUs by the owner: %v", err)
	}
}

// TestImpossibleSize: a size that the job cannot have is refused to each caller, with the reason, and no action is
// begun.
func TestImpossibleSize(t *testing.T) {
	s := newSite(t)
	id := s.addJob(alice)
	var asked []string
	s.server.opt.CheckSize = func(_ context.Context, job *slurmrest.Job, kind string, args action.Args) error {
		asked = append(asked, fmt.Sprint(kind, job.ID, args.GPUs))
		if args.Swap {
			return nil
		}
		if args.GPUs == 9 {
			return errors.New("node n1 does not answer")
		}
		return &jobrequest.SizeError{Text: "its programs see 2 there"}
	}
	for gpus, want := range map[int64]struct {
		kind error
		said string
	}{
		8: {rpc.ErrNotPossible, fmt.Sprintf("resize: job %d: its programs see 2 there", id)},
		9: {rpc.ErrSlurm, "cannot be found out: node n1 does not answer"},
	} {
		_, err := s.clientOf(carol).Act(t.Context(), &rpc.ActRequest{Kind: "resize", Job: fmt.Sprint(id), Gpus: gpus})
		if !errors.Is(err, want.kind) || !strings.Contains(err.Error(), want.said) {
			t.Errorf("resize to %d GPUs: %v", gpus, err)
		}
	}
	if _, err := s.clientOf(alice).Act(t.Context(), &rpc.ActRequest{Kind: "resize", Job: fmt.Sprint(id), Gpus: 8}); !errors.Is(err, rpc.ErrDenied) || len(asked) != 2 {
		t.Errorf("a user is told of nodes before it is known that the size is permitted: %v, %q", err, asked)
	}
	if all, err := s.journal.History(t.Context(), 0, 10); err != nil || len(all) != 0 {
		t.Errorf("after refused requests: %v, history %v, want none", err, all)
	}
	if _, err := s.clientOf(carol).Act(t.Context(), &rpc.ActRequest{Kind: "resize", Job: fmt.Sprint(id), Gpus: 1, Swap: true}); err != nil {
		t.Errorf("a caller that insists on a size at which ranks are swapped: %v", err)
	}
}

// TestOperators act on everybody's jobs, and other users do not see these actions.
func TestOperators(t *testing.T) {
	s := newSite(t)
	for i, uid := range []uint32{0, carol, dave, super} {
		id := s.addJob(alice)
		a, err := s.clientOf(uid).Act(t.Context(), &rpc.ActRequest{Kind: "resize", Job: fmt.Sprint(id), NodeCount: 4})
		if err != nil {
			t.Fatalf("resize by operator %d: %v", uid, err)
		}
		for who, want := range map[uint32]int{alice: i + 1, bob: 0, carol: i + 1} {
			all, err := s.clientOf(who).History(t.Context(), "", 0)
			if err != nil || len(all.GetActions()) != want {
				t.Errorf("History for user %d: %v, %v", who, err, all)
			}
			st, err := s.clientOf(who).Status(t.Context())
			if unkept := st.GetUnkept(); len(unkept) != 1 || unkept[0] != "premium: 96 GPUs are promised, 64 are there" {
				t.Errorf("unkept promises in the status for user %d = %q", who, unkept)
			}
			if err != nil || len(st.GetActions()) != want || int(st.GetUnderWay()) != i+1 || st.GetHolder() == "" || len(st.GetProblems()) != 1 != (who != carol) {
				t.Errorf("Status for user %d: %v, %v", who, err, st)
			}
		}
		if _, err := s.clientOf(bob).Show(t.Context(), a.GetId()); !errors.Is(err, rpc.ErrDenied) {
			t.Errorf("another's action: %v", err)
		}
	}
	if _, err := s.clientOf(bob).Show(t.Context(), 4711); !errors.Is(err, rpc.ErrNoAction) {
		t.Error(err)
	}
}

// TestHolds: a user takes back his own holds only.
func TestHolds(t *testing.T) {
	for name, c := range map[string]struct {
		by     string // the user or action that had preempted the job
		reason string
		said   string
		kind   string
		memo   string
	}{
		"his own action":       {by: "alice", reason: "JobHeldAdmin"},
		"his own scontrol":     {reason: "JobHeldUser"},
		"his own hold":         {by: "alice", reason: "JobHeldAdmin", kind: "hold"},
		"held when he held it": {by: "alice", reason: "JobHeldAdmin", kind: "hold", memo: `{"wasHeld":true}`, said: "held by an administrator"},
		"held when requeued":   {by: "alice", reason: "JobHeldAdmin", kind: "requeue", memo: `{"wasHeld":true}`, said: "held by an administrator"},
		"released by him":      {by: "alice", reason: "JobHeldAdmin", kind: "release", memo: `{"wasHeld":true}`, said: "held by an administrator"},
		"an operator":          {by: "carol", reason: "JobHeldUser", said: "job 1 is held by carol: maintenance"},
		"a policy":             {by: "policy power", reason: "JobHeldUser", said: "job 1 is held by policy power: maintenance"},
		"an administrator":     {reason: "JobHeldAdmin", said: "held by an administrator"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			id := s.srv.AddJob(slurmrest.Job{UserID: alice, Batch: true, Held: true, Priority: slurmrest.Num(0)})
			s.srv.EditJob(id, func(j *slurmrest.Job) { j.Held, j.Priority, j.Reason = true, slurmrest.Num(0), c.reason })
			if c.by != "" {
				s.leaveHeld(id, c.by, c.kind, c.memo)
			}
			for _, kind := range []string{"resume", "release"} {
				a, err := s.clientOf(alice).Act(t.Context(), &rpc.ActRequest{Kind: kind, Job: fmt.Sprint(id)})
				if c.said == "" && err != nil || c.said != "" && (!errors.Is(err, rpc.ErrDenied) || !strings.Contains(err.Error(), c.said)) {
					t.Errorf("%s by the owner: %v", kind, err)
				}
				if err == nil {
					s.endAction(a.GetId(), journal.Undone, "")
				}
			}
		})
	}
}

// leaveHeld carries out an action of a user, which leaves the job held.
func (s *site) leaveHeld(job int64, by, kind, memo string) {
	s.Helper()
	args := json.RawMessage("{}")
	if kind == "" {
		kind, args = "preempt", json.RawMessage(`{"hold":true}`)
	}
	a, err := s.journal.Begin(s.Context(), journal.Request{Kind: kind, Job: job, Who: by, Why: "maintenance", Args: args})
	if err != nil {
		s.Fatal(err)
	}
	a.State = journal.Done
	if memo != "" {
		a.Memo = json.RawMessage(memo)
	}
	if err := s.journal.Save(s.Context(), &a, "ended"); err != nil {
		s.Fatal(err)
	}
}

// TestBefell: the events of a job, and the list of jobs, are for the owner and for operators.
func TestBefell(t *testing.T) {
	s := newSite(t)
	id := s.addJob(alice)
	if err := s.journal.Note(t.Context(), journal.Event{Job: id, Restarts: 1, What: "preempted", At: time.Now(), Text: "by Slurm"}); err != nil {
		t.Fatal(err)
	}
	for who, want := range map[uint32]int{alice: 1, bob: 0, carol: 1} {
		all, err := s.clientOf(who).History(t.Context(), "", 0)
		if err != nil || len(all.GetEvents()) != want || want == 1 && all.GetEvents()[0].GetWhat() != "preempted" {
			t.Errorf("History for user %d: %v, %v", who, err, all)
		}
		jobs, err := s.clientOf(who).Jobs(t.Context())
		if err != nil || len(jobs.GetJobs()) != want {
			t.Errorf("Jobs for user %d: %v, %v", who, err, jobs)
		}
	}
	if n := s.listed.Load(); n != 3 {
		t.Errorf("all jobs were listed %d times for 3 requests that want them", n)
	}
}

// TestSlurmAway: the answer says that Slurm is away, and no action was begun.
func TestSlurmAway(t *testing.T) {
	s := newSite(t)
	id := s.addJob(alice)
	s.srv.Fail(slurmresttest.Fault{Times: 100, Status: 500})
	if _, err := s.clientOf(alice).Act(t.Context(), &rpc.ActRequest{Kind: "preempt", Job: fmt.Sprint(id)}); !errors.Is(err, rpc.ErrSlurm) {
		t.Error(err)
	}
}

// TestNobody: an address at which no process listens is named.
func TestNobody(t *testing.T) {
	c, err := rpc.Dial("127.0.0.1:1", "n7", mungetest.NewRealm().As(alice, alice))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Status(t.Context()); !errors.Is(err, rpc.ErrUnreachable) || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Error(err)
	}
}
