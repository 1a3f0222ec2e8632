// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/singularity-slurm/singularity-slurm/preemptd/jobrequest"
	"github.com/singularity-slurm/singularity-slurm/preemptd/journal"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
	"github.com/singularity-slurm/singularity-slurm/slurmrestd-client/slurmresttest"
)

// world is a cluster with a single job: a slurmrestd, a scheduler, which slurmrestd lacks, and a proxyd that makes
// its checkpoints as files in a folder.
type world struct {
	srv   *slurmresttest.Server
	id    int64
	dir   string // of checkpoints
	db    string
	mu    sync.Mutex
	full  bool // no job starts
	runs  []string
	wakes int
}

const userComment = "my training"

// newWorld makes a world with a job that runs on n1 and n2, or with a job that waits for its begin time: a release
// moves the begin time to now.
func newWorld(t *testing.T, waits bool) *world {
	t.Helper()
	w := &world{srv: slurmresttest.Start(t, slurmresttest.Options{}), dir: t.TempDir()}
	w.db = filepath.Join(inMemory(t), "preemptd.db")
	w.id = w.srv.AddJob(slurmrest.Job{
		Name: "train", User: "alice", QOS: "basic", Batch: true, Requeueable: true, Comment: userComment, ExcludedNodes: "n9",
		NodeCount: slurmrest.Num(2), Tasks: slurmrest.Num(4), TasksPerNode: slurmrest.Num(2), TRESPerNode: "gres/gpu:a100:2",
	})
	if !waits {
		w.srv.StartJob(w.id, "n1", "n2")
	}
	return w
}

// inMemory is a folder that is on no disk, if the machine has such a folder: each line of a journal waits for the
// disk, which other tests keep busy at the same time. A write outlives a killed process in either.
func inMemory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "action-*")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func (w *world) currentJob() slurmrest.Job {
	j, _ := w.srv.Job(w.id)
	return j
}

// stepSlurm makes a change that Slurm makes by itself.
func (w *world) stepSlurm() {
	w.mu.Lock()
	defer w.mu.Unlock()
	j := w.currentJob()
	switch {
	case j.State.Base == slurmrest.Pending && j.State.Has(slurmrest.Completing):
		w.srv.Settle(w.id)
		// The client waits for two seconds after a requeue; here they have passed.
		w.srv.EditJob(w.id, func(j *slurmrest.Job) { j.SubmitTime = j.SubmitTime.Add(-3 * time.Second) })
	case j.State.Base == slurmrest.Pending && !j.Held && !w.full && !j.EligibleTime.IsZero() && !j.EligibleTime.After(time.Now()):
		nodes := jobrequest.HostNames(j.RequiredNodes)
		for i := 4; len(nodes) < int(j.NodeCount.Value); i++ {
			if name := fmt.Sprintf("n%d", i); !slices.Contains(jobrequest.HostNames(j.ExcludedNodes), name) {
				nodes = append(nodes, name)
			}
		}
		w.srv.StartJob(w.id, nodes...)
		w.runs = append(w.runs, w.currentJob().Nodes)
	}
}

// client asks the world's slurmrestd; every second look finds that a moment has passed.
type client struct {
	*slurmrest.Client
	w *world
}

func (c client) Job(ctx context.Context, ref slurmrest.Ref) (slurmrest.Job, error) {
	if c.w.wakes++; c.w.wakes%2 == 0 {
		c.w.stepSlurm()
	}
	return c.Client.Job(ctx, ref)
}

// shelf is a proxyd that makes empty checkpoints.
type shelf struct{ dir string }

func (s shelf) Checkpoint(_ context.Context, job *slurmrest.Job, reason string) (*rpc.Checkpoint, error) {
	all, err := s.Checkpoints(nil, job) //nolint:staticcheck // the shelf needs no context
	if err != nil {
		return nil, err
	}
	id := fmt.Sprintf("test/%s/%d", job.Label(), len(all)+1)
	tmp := filepath.Join(s.dir, ".new")
	if err := os.WriteFile(tmp, []byte(reason), 0o600); err != nil {
		return nil, err
	}
	return &rpc.Checkpoint{Id: id, Reason: reason}, os.Rename(tmp, filepath.Join(s.dir, fmt.Sprint(len(all)+1)))
}

// Show tells that the job's run is restored, when a file says after how many looks.
func (s shelf) Show(_ context.Context, job *slurmrest.Job) (*rpc.Job, error) {
	looks := filepath.Join(s.dir, "looks")
	left, err := os.ReadFile(looks)
	shown := &rpc.Job{Timeline: []*rpc.Event{
		{Event: "started"}, {Event: "restored", Text: "from checkpoint 1", Checkpoint: 1}, // of an earlier run
		{Event: "started", Run: uint32(job.Restarts) + 1, Checkpoint: 1},
	}}
	if err == nil && len(left) > 0 {
		return shown, os.WriteFile(looks, left[1:], 0o600)
	}
	shown.Timeline = append(shown.Timeline, &rpc.Event{Event: "restored", Text: "from checkpoint 1", Checkpoint: 1})
	return shown, nil
}

// RunOn is noted in a file.
func (s shelf) RunOn(context.Context, *slurmrest.Job) error {
	return os.WriteFile(filepath.Join(s.dir, "ran on"), nil, 0o600)
}

// Lend is noted in a file, if there is a file named lends; else no job can lend. A job of a GPU needs no lease: the
// leases that it had are ended.
func (s shelf) Lend(_ context.Context, _ *slurmrest.Job, gpus int64, _ string) ([]uint32, error) {
	if _, err := os.Stat(filepath.Join(s.dir, "lends")); err != nil {
		return nil, &rpc.Error{Kind: rpc.ErrInvalid, Text: "it cannot have that number of GPUs in place"}
	}
	var leases []uint32
	if gpus > 1 {
		leases = []uint32{901}
	}
	return leases, os.WriteFile(filepath.Join(s.dir, "lent"), fmt.Append(nil, gpus), 0o600)
}

func (s shelf) Checkpoints(_ context.Context, job *slurmrest.Job) ([]*rpc.Checkpoint, error) {
	var all []*rpc.Checkpoint
	for i := 1; ; i++ {
		path := filepath.Join(s.dir, fmt.Sprint(i))
		reason, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		st, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		all = append(all, &rpc.Checkpoint{
			Id: fmt.Sprintf("test/%s/%d", job.Label(), i), Reason: string(reason), Created: timestamppb.New(st.ModTime()),
		})
	}
}

// countCheckpoints returns how many checkpoints there are.
func (w *world) countCheckpoints(t *testing.T) int {
	t.Helper()
	all, err := shelf{w.dir}.Checkpoints(t.Context(), &slurmrest.Job{ID: w.id})
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// clock passes as fast as its users wait.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) sleep(ctx context.Context, d time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
	return ctx.Err()
}

// points are where a test may step in: before and after every write and every request.
type points struct {
	Slurm
	Proxyd
	Journal
	at func(name string) error // before: the request is not carried out if an error is returned
}

func (p points) around(name string, do func() error) error {
	if err := p.at("before " + name); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	return p.at("after " + name)
}

func (p points) Save(ctx context.Context, a *journal.Action, text string) error {
	return p.around("save "+string(a.State)+" "+a.Step, func() error { return p.Journal.Save(ctx, a, text) })
}

func (p points) SetOrigin(ctx context.Context, job int64, shape json.RawMessage) error {
	return p.around("origin", func() error { return p.Journal.SetOrigin(ctx, job, shape) })
}

func (p points) Update(ctx context.Context, ref slurmrest.Ref, edit slurmrest.JobUpdate) error {
	name := "edit"
	switch {
	case edit.Hold != nil && *edit.Hold:
		name = "hold"
	case edit.Hold != nil:
		name = "release"
	case edit.Comment != nil:
		name = "comment"
	}
	return p.around(name, func() error { return p.Slurm.Update(ctx, ref, edit) })
}

func (p points) Requeue(ctx context.Context, ref slurmrest.Ref, opt slurmrest.RequeueOptions) (slurmrest.RequeueResult, error) {
	var r slurmrest.RequeueResult
	err := p.around("requeue", func() (err error) { r, err = p.Slurm.Requeue(ctx, ref, opt); return err })
	return r, err
}

func (p points) Checkpoint(ctx context.Context, job *slurmrest.Job, reason string) (*rpc.Checkpoint, error) {
	var c *rpc.Checkpoint
	err := p.around("checkpoint", func() (err error) { c, err = p.Proxyd.Checkpoint(ctx, job, reason); return err })
	return c, err
}

func (p points) Lend(ctx context.Context, job *slurmrest.Job, gpus int64, qos string) ([]uint32, error) {
	var leases []uint32
	err := p.around("lend", func() (err error) { leases, err = p.Proxyd.Lend(ctx, job, gpus, qos); return err })
	return leases, err
}

// newRunner does the world's actions in this process, under a clock of its own.
func (w *world) newRunner(t *testing.T, j *journal.Journal, at func(string) error) *Runner {
	t.Helper()
	if at == nil {
		at = func(string) error { return nil }
	}
	p := points{client{w.srv.Client(t), w}, shelf{w.dir}, j, at}
	c := &clock{at: time.Now()}
	return &Runner{Slurm: p, Proxyd: p, Journal: p, Now: c.now, Sleep: c.sleep}
}

// openJournal opens the world's journal, with the mandate.
func (w *world) openJournal(t *testing.T) *journal.Journal {
	t.Helper()
	j, err := journal.Open(t.Context(), w.db, "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	if err := j.Await(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	return j
}

// beginAction opens an action.
func (w *world) beginAction(t *testing.T, j *journal.Journal, name string, args Args) journal.Action {
	t.Helper()
	raw, err := Encode(name, args)
	if err != nil {
		t.Fatal(err)
	}
	a, err := j.Begin(t.Context(), journal.Request{Kind: name, Job: w.id, Args: raw, Who: "bob", Why: "room for 99"})
	if err != nil {
		t.Fatal(err)
	}
	return a
}
