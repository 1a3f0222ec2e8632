// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/overlay"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
	"github.com/singularity-slurm/singularity-slurm/proxyd/stage"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// ErrNoJob is wrapped by errors about a job that nothing is known of.
var ErrNoJob = errors.New("no job of ours")

// ErrAway is wrapped by a Remote's error when a node's daemon cannot be reached.
var ErrAway = errors.New("proxyd does not answer")

// Config is what a Conductor knows of its node. All folders must exist.
type Config struct {
	Node    string // its name in Slurm
	Cluster string
	Lib     string // folder of this node's state
	Shared  string // folder of all nodes' state
	Real    string // srun
	Wrapper string // what capsules see instead of Real, as it is installed
	KitDir  string // where capsules see the shim; a folder of the node
	ListDir string // where capsules see the list of their files; an empty folder of the node
	Socket  string // where runners of sruns ask
	Cgroups string // root of the cgroup v2 hierarchy, "" without
	Release string // of Slurm, "24.11"
	Help    []byte // what its srun --help says

	Interval    time.Duration   // between checkpoints of a job that does not say; 0: none
	OnTimeLimit string          // "requeue", "hold" or "end"
	OnFailure   string          // of a restore, unless the job says so itself: "hold" or "restart"
	Without     string          // what becomes of a job that is run again and has no checkpoint: "restart" or "hold"
	Keep        store.Retention // of a job that runs

	Devices DeviceConfig

	Rate     uint64        // bytes a second that are brought from the stage into the store; 0: any number
	Patience time.Duration // of a restore with a node that has its checkpoint and does not answer; 0: for ever
}

// Deps is what a Conductor works with.
type Deps struct {
	Slurm   *slurm.Slurm
	Store   *store.Store
	Stage   *stage.Stage // of this node, where checkpoints land first; nil: straight into Store
	Overlay *overlay.Overlay
	Pool    *overlay.Pool
	Remote  Remote
	Log     *slog.Logger
	Meter   Meter // nil: nobody counts
}

// Remote asks the conductors of other nodes.
type Remote interface {
	// Phase has a node carry out its part of a phase, and returns what it answers.
	Phase(ctx context.Context, node, job, attempt, phase string, body []byte) ([]byte, error)
}

// Conductor leads the checkpoints and restores of the jobs whose batch script runs on
// this node, and takes part in those of others. It is safe for concurrent use.
type Conductor struct {
	Config
	Deps
	records    records
	uploads    uploads
	uploadRate rateLimit

	daemonCtx    context.Context // ends with the daemon
	cancelDaemon context.CancelFunc
	background   sync.WaitGroup

	timelineMu sync.Mutex // of time lines

	mu             sync.Mutex
	jobs           map[uint32]*job
	longestCapture time.Duration
	endedRuns      map[uint32]int // runs of which this node had a capsule and has it no more

	warnNoFanotify sync.Once // said that files are not watched here

	activeUploads map[uint32]*uploadRun // uploads that this node leads, by job
	shareProgress map[store.ID][2]int64 // how far its shares are
}

// New returns a Conductor. Call Adopt before anything else, and Close at the end.
func New(cfg Config, deps Deps) (*Conductor, error) {
	c := &Conductor{Config: cfg, Deps: deps, jobs: map[uint32]*job{}, activeUploads: map[uint32]*uploadRun{}, shareProgress: map[store.ID][2]int64{}}
	if c.Meter == nil {
		c.Meter = noMeter{}
	}
	c.uploadRate.set(cfg.Rate)
	c.records.dir = filepath.Join(cfg.Shared, "jobs")
	c.uploads.dir = c.records.dir
	for _, dir := range []string{c.records.dir, c.capsulesDir(), c.devicesDir(), c.notesDir(), c.sharedKits(), c.localKits()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	c.loadLongestCapture()
	c.daemonCtx, c.cancelDaemon = context.WithCancel(context.Background())
	return c, nil
}

// Close ends what is in progress: a checkpoint that is not committed is undone. Capsules
// run on.
func (c *Conductor) Close() {
	c.cancelDaemon()
	c.background.Wait()
}

func (c *Conductor) capsulesDir() string { return filepath.Join(c.Lib, "capsules") }
func (c *Conductor) devicesDir() string  { return filepath.Join(c.Lib, "devices") }
func (c *Conductor) notesDir() string    { return filepath.Join(c.Lib, "notes") }

// startBackground runs f until the daemon ends.
func (c *Conductor) startBackground(f func(context.Context)) {
	c.background.Go(func() { f(c.daemonCtx) })
}

// jobFor returns what this node knows of a job; the first call makes it.
func (c *Conductor) jobFor(id uint32) *job {
	c.mu.Lock()
	defer c.mu.Unlock()
	j := c.jobs[id]
	if j == nil {
		j = &job{c: c, id: id, capsules: map[int]*localCapsule{}, log: c.Log.With("job", id)}
		c.jobs[id] = j
	}
	return j
}

// hasLostCapsules says whether this node had a capsule of a run and has it no more.
func (c *Conductor) hasLostCapsules(id uint32, run int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, ok := c.endedRuns[id]
	return ok && last == run
}

// rememberEndedRun remembers that. What is forgotten costs a checkpoint its caution, nothing else.
func (c *Conductor) rememberEndedRun(id uint32, run int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.endedRuns == nil || len(c.endedRuns) >= maxEndedRuns {
		c.endedRuns = map[uint32]int{}
	}
	c.endedRuns[id] = run
}

// hasRunEnded says whether this node had a capsule of a run.
func (c *Conductor) hasRunEnded(id uint32, run int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, had := c.endedRuns[id]
	return had && at >= run
}

const maxEndedRuns = 10000

// findJob returns a job that this node has something of, or nil.
func (c *Conductor) findJob(id uint32) *job {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.jobs[id]
}

func (c *Conductor) forgetJob(id uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.jobs, id)
}

func (c *Conductor) allJobs() []*job {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]*job, 0, len(c.jobs))
	for _, j := range c.jobs {
		all = append(all, j)
	}
	return all
}

func (c *Conductor) storeJob(id uint32) store.JobID {
	return store.JobID{Cluster: c.Cluster, Job: id, ArrayTask: store.None, Component: store.None}
}

// jobName is a job's name for Slurm.
func jobName(id uint32) string { return strconv.FormatUint(uint64(id), 10) }

func parseJobName(job string) (uint32, error) {
	n, err := strconv.ParseUint(job, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("job %q: %w", job, ErrNoJob)
	}
	return uint32(n), nil
}
