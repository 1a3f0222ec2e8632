// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/outside"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/reports"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/upload"
	"github.com/singularity-slurm/singularity-slurm/proxyd/nodesocket"
	"github.com/singularity-slurm/singularity-slurm/proxyd/overlay"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/shared"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
	"github.com/singularity-slurm/singularity-slurm/proxyd/stage"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// ErrNoJob is wrapped by errors about a job that this node does not know.
var ErrNoJob = errors.New("no such protected job")

// ErrAway is wrapped by a NodeCaller's error when a node's daemon cannot be reached.
var ErrAway = errors.New("proxyd does not answer")

// Config describes the node of a Conductor. All folders must exist.
type Config struct {
	Node        string // name of the node in Slurm
	Cluster     string
	Lib         string // folder for the state of this node
	Shared      string // folder for the state that all nodes share
	SrunPath    string
	SrunWrapper string // path of the program that capsules see in place of srun
	KitDir      string // where capsules see their kit; a folder of the node
	// Scontrol is the path of scontrol, which capsules see replaced; "": they see the node's.
	// RealScontrol is where they see the node's then: an empty file of the node.
	Scontrol, RealScontrol string

	// ContainersDir is where capsules show the roots of containers; an empty folder of the node.
	ContainersDir string

	ListDir string // where capsules see the list of changed files; an empty folder of the node
	Socket  string // socket for the runners of sruns
	Cgroups string // root of the cgroup v2 hierarchy; "": none
	Release string // release of Slurm: "24.11"
	Help    []byte // output of srun --help

	MPIDefault string // Slurm's MpiDefault

	Interval          time.Duration   // between periodic checkpoints, unless the job has its own; 0: none; or IntervalAuto
	NodeMTBF          time.Duration   // mean time between failures of a node, for IntervalAuto
	OnTimeLimit       string          // "requeue", "hold" or "end"
	OnFailure         string          // after a failed restore, unless the job has its own: "hold" or "restart"
	RestoreAsRoot     bool            // criu may be root for a program with System V objects
	Outside           string          // connections to outside of the job, unless the job has its own: "reset", "relay" or "refuse"
	RelayName         string          // of the site's relay, for people
	WithoutCheckpoint string          // for a requeued job without a checkpoint: "restart" or "hold"
	Retention         store.Retention // for checkpoints of running jobs
	KeepPast          time.Duration   // for time lines of jobs that are over

	// ObstacleInterval is the time between two searches of a running job for parts that cannot be captured; 0: a run is
	// searched once, soon after its start.
	ObstacleInterval time.Duration

	Devices DeviceConfig

	UploadRate      uint64        // bytes per second from the stage into the store; 0: unlimited
	RestorePatience time.Duration // how long a restore waits for a silent node with a share of the checkpoint; 0: for ever
}

// Deps are the services that a Conductor uses.
type Deps struct {
	Slurm   *slurm.Slurm
	Store   *store.Store
	Stage   *stage.Stage // of this node; checkpoints are written there first. nil: write into Store at once
	Overlay *overlay.Overlay
	Pool    *overlay.Pool
	Remote  NodeCaller
	Relay   outside.Relay // nil: the site has none
	Log     *slog.Logger
	Meter   reports.Meter // nil: no metrics

	// CheckShared tells whether the shared folder is there. It may hang as long as the folder's file system does. nil: it is.
	CheckShared func() error
}

// NodeCaller calls the conductors of other nodes.
type NodeCaller interface {
	// Call has a node carry out a call, and returns the reply.
	Call(ctx context.Context, node string, req *rpc.CallRequest) (*rpc.CallReply, error)
}

// Conductor leads the checkpoints and restores of the jobs that have their batch script on
// this node, and takes part in the checkpoints of jobs that other nodes lead. All methods may be called concurrently.
type Conductor struct {
	Config
	Deps
	records  records.Folder
	timeline *records.Timeline
	kits     records.Kits
	uploads  *upload.Uploads

	sharedWatch shared.Watch

	daemonCtx    context.Context // cancelled by Close
	cancelDaemon context.CancelFunc
	background   sync.WaitGroup

	jobs     jobTable
	captures *reports.CaptureTimes
	leases   gpuLeases
	restarts restart

	nodeHandlers handlers[*Conductor] // of the calls for which the node need not know the job any more
	jobHandlers  handlers[*job]       // of the calls that concern a job of this node

	warnNoFanotify sync.Once // for the warning that changes of static programs are not recorded
}

// New returns a Conductor. Call Adopt before anything else, and Close at the end.
func New(cfg Config, deps Deps) (*Conductor, error) {
	c := (&Conductor{Config: cfg, Deps: deps}).linkPartsToConductor()
	if c.Meter == nil {
		c.Meter = reports.NoMeter{}
	}
	c.records.Dir = filepath.Join(cfg.Shared, "jobs")
	c.timeline = records.NewTimeline(c.records, c.Node)
	c.kits = records.Kits{Shared: filepath.Join(cfg.Shared, "kits"), Local: filepath.Join(cfg.Lib, "kits"), CapsuleDir: cfg.KitDir, Wrapper: cfg.SrunWrapper}
	for _, dir := range []string{c.records.Dir, c.folders().capsulesDir(), c.folders().devicesDir(), c.folders().sharedDevicesDir(), c.folders().forwardersDir(), c.folders().notesDir(), c.kits.Shared, c.kits.Local} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	c.captures = reports.LoadCaptureTimes(c.folders().capturePath(), c.Log)
	c.daemonCtx, c.cancelDaemon = context.WithCancel(context.Background())
	c.uploads = upload.New(c.daemonCtx, upload.Config{
		Node: c.Node, Cluster: c.Cluster, Dir: c.records.Dir, Store: c.Store, Stage: c.Stage, Rate: cfg.UploadRate, Conductor: uploadConductor{c}, Log: c.Log,
	})
	return c, nil
}

// linkPartsToConductor makes the parts of the conductor refer to it, and sets the handlers of calls.
func (c *Conductor) linkPartsToConductor() *Conductor {
	c.restarts.c, c.leases.c = c, c
	c.nodeHandlers, c.jobHandlers = makeNodeHandlers(), makeJobHandlers()
	return c
}

// Close stops work in progress: a checkpoint that is not committed is undone. Capsules run on.
func (c *Conductor) Close() {
	c.cancelDaemon()
	c.uploads.Close()
	c.background.Wait()
}

// LongestCapture returns the longest time, of the jobs that this node led, from Slurm's signal to
// the committed checkpoint; 0 if there was none.
func (c *Conductor) LongestCapture() time.Duration { return c.captures.Longest() }

// slurmComments writes the comments of jobs in Slurm.
func (c *Conductor) slurmComments() reports.Comments { return reports.Comments{Slurm: c.Slurm} }

// jobFor returns this node's state of a job, and makes the state at the first call.
func (c *Conductor) jobFor(id uint32) *job { return c.jobs.getOrMake(c, id) }

// startBackground runs f in a goroutine. ctx of f ends with the daemon, and Close waits for f.
func (c *Conductor) startBackground(f func(context.Context)) {
	c.background.Go(func() { f(c.daemonCtx) })
}

// sharedLook is the time between two looks at a shared folder that is away.
const sharedLook = time.Second

// waitForShared returns when the shared folder is there: without the folder, a job that has a record looks like a job
// without one. It returns an error only if ctx ends, as happens when the waiting task ends, or if Slurm has sent the
// task SIGTERM.
func (c *Conductor) waitForShared(ctx context.Context, t nodesocket.Join) error {
	job := t.Job
	if c.CheckShared == nil {
		return nil
	}
	isAway := false
	for {
		err := c.sharedWatch.CheckNow(ctx, c.CheckShared)
		switch {
		case err == nil && isAway:
			c.Log.Info("the shared folder is back", "job", job)
			c.jobFor(job).report.EndWait()
			return nil
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return err
		case !isAway:
			isAway = true
			c.Log.Error("a task waits for the shared folder", "job", job, "error", err)
			c.jobFor(job).report.SetComment(reports.SharedWait + err.Error())
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-t.Terminated:
			return errTerminated
		case <-time.After(sharedLook):
		}
	}
}

func parseJobName(job string) (uint32, error) {
	n, err := strconv.ParseUint(job, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("job %q: %w", job, ErrNoJob)
	}
	return uint32(n), nil
}

// jobTable has this node's state of each job. All methods may be called concurrently.
type jobTable struct {
	mu        sync.Mutex
	byNumber  map[uint32]*job
	endedRuns map[uint32]int // newest run of each job of which this node had capsules and has no capsule any more
}

// getOrMake returns the state of a job, and makes the state at the first call.
func (t *jobTable) getOrMake(c *Conductor, id uint32) *job {
	t.mu.Lock()
	defer t.mu.Unlock()
	j := t.byNumber[id]
	if j == nil {
		j = newJob(c, id)
		t.addJob(j)
	}
	return j
}

// addJob adds a job. Caller holds t.mu.
func (t *jobTable) addJob(j *job) {
	if t.byNumber == nil {
		t.byNumber = map[uint32]*job{}
	}
	t.byNumber[j.id] = j
}

// findJob returns the state of a job; nil if there is none.
func (t *jobTable) findJob(id uint32) *job {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byNumber[id]
}

// Has tells whether the node has the state of a job.
func (t *jobTable) Has(id uint32) bool { return t.findJob(id) != nil }

// forgetJob removes the state of a job.
func (t *jobTable) forgetJob(id uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.byNumber, id)
}

// allJobs returns the states of all jobs.
func (t *jobTable) allJobs() []*job {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Values(t.byNumber))
}

const maxEndedRuns = 10000

// rememberEndedRun notes that this node has no capsules of the run any more. The notes are
// dropped when they become many: hasLostCapsules then answers no, and a checkpoint is tried in
// vain.
func (t *jobTable) rememberEndedRun(id uint32, run int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.endedRuns == nil || len(t.endedRuns) >= maxEndedRuns {
		t.endedRuns = map[uint32]int{}
	}
	t.endedRuns[id] = run
}

// hasLostCapsules tells whether this node had capsules of the run and now has no capsule of the job.
func (t *jobTable) hasLostCapsules(id uint32, run int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	last, ok := t.endedRuns[id]
	return ok && last == run
}

// HasRunEnded tells whether this node had capsules of the run, or of a later run, and now has no capsule of the job.
func (t *jobTable) HasRunEnded(id uint32, run int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	last, ok := t.endedRuns[id]
	return ok && last >= run
}

// nodeFolders names the files of this node's state; doc.go lists them.
type nodeFolders struct{ lib string }

// folders names the files of this node's state.
func (c *Conductor) folders() nodeFolders { return nodeFolders{c.Lib} }

func (f nodeFolders) capturePath() string { return filepath.Join(f.lib, "capture") }

func (f nodeFolders) notePath(job uint32, index int) string {
	return filepath.Join(f.notesDir(), fmt.Sprintf("%d.%d.json", job, index))
}

func (f nodeFolders) capsuleDir(job uint32, index int) string {
	return filepath.Join(f.capsulesDir(), fmt.Sprintf("%d.%d", job, index))
}

func (f nodeFolders) deviceDir(job uint32, index int) string {
	return filepath.Join(f.devicesDir(), capsuleName(job, index))
}

// forwarderDir is the folder of a capsule's forwarder.
func (f nodeFolders) forwarderDir(job uint32, index int) string {
	return filepath.Join(f.forwardersDir(), capsuleName(job, index))
}

func (f nodeFolders) forwardersDir() string { return filepath.Join(f.lib, "forwarders") }

// changeListDir is the folder of a capsule's list of changed files, on this node.
func (f nodeFolders) changeListDir(job uint32, index int) string {
	return filepath.Join(f.lib, "lists", fmt.Sprintf("%d.%d", job, index))
}

// srunDir is the folder of the sruns that a capsule's programs started.
func (f nodeFolders) srunDir(job uint32, index int) string {
	return filepath.Join(f.lib, "sruns", fmt.Sprintf("%d.%d", job, index))
}

func (f nodeFolders) capsulesDir() string { return filepath.Join(f.lib, "capsules") }

func (f nodeFolders) devicesDir() string { return filepath.Join(f.lib, "devices") }

// sharedDeviceDir is the folder of a process that is the device server of several capsules of a run, of which first is the
// lowest. It is named for the run, so no capsule comes to a process of an earlier run.
func (f nodeFolders) sharedDeviceDir(job uint32, run, first int) string {
	return filepath.Join(f.sharedDevicesDir(), fmt.Sprintf("%d.%d.%d", job, run, first))
}

// sharedDeviceIndex is the lowest capsule of a folder that sharedDeviceDir has named.
func sharedDeviceIndex(dir string) int {
	name := filepath.Base(dir)
	index, _ := strconv.Atoi(name[strings.LastIndexByte(name, '.')+1:]) // all names have this form: no error
	return index
}

func (f nodeFolders) sharedDevicesDir() string { return filepath.Join(f.lib, "shared-devices") }

func (f nodeFolders) notesDir() string { return filepath.Join(f.lib, "notes") }
