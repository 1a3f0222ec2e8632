// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/gpus"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/outside"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/processes"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/reports"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/runs"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/steps"
	"github.com/singularity-slurm/singularity-slurm/proxyd/criu"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/life"
	"github.com/singularity-slurm/singularity-slurm/proxyd/files"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
	"github.com/singularity-slurm/singularity-slurm/proxyd/syscalls"
)

// job is this node's state of a job.
type job struct {
	c   *Conductor
	id  uint32
	log *slog.Logger

	// capsulesMu is held while capsules are made or removed, and is taken before mu. mu protects the fields below. The
	// only call that waits under mu is saveNote, which writes a file of this node.
	capsulesMu sync.Mutex

	lending sync.Mutex // held while the number of leases on this node changes, before placing
	placing sync.Mutex // held while a lease begins or ends

	run         runs.Run                         // the present run: its states, its record, the checkpoint that it resumes from
	termination runs.Termination[withheldSignal] // the SIGTERM of Slurm that this run has got
	report      reports.Job                      // what people are told of the job

	// Parts with methods of their own. Each refers back to the job; failed and ending have no state.
	continuation continuation // a SIGCONT of Slurm (events.go)
	participant  participant  // this node's part in checkpoints (participant.go)
	restore      restore      // the steps of a restore, and this node's part in them (restore_steps.go)
	failed       failedRun    // ends a run that cannot go on (hold.go, retry_restore.go)
	ending       runEnding    // waits, in the epilog, for what follows the run (epilog.go)

	mu            sync.Mutex
	capsules      map[int]*localCapsule
	ledAttempt    *attempt             // the attempt that this node leads
	stopPeriodic  func()               // stops the periodic checkpoints, and the looks for obstacles
	captureCost   time.Duration        // that the newest checkpoint took; 0: not known
	capturedAt    time.Time            // when the newest checkpoint of this run began
	lastObstacles []processes.Obstacle // of the last attempt, or of the last look
	foundByCRIU   []processes.Obstacle // by the dump of the last attempt; nil: that has not failed so
	lookedAt      bool                 // this run was searched for obstacles

	awaitsProtection bool // a task has asked to be admitted, and Slurm was not asked about the run yet
}

func newJob(c *Conductor, id uint32) *job {
	return (&job{c: c, id: id, capsules: map[int]*localCapsule{}, log: c.Log.With("job", id)}).linkPartsToJob()
}

// linkPartsToJob makes the parts of the job refer to it.
func (j *job) linkPartsToJob() *job {
	j.continuation.j, j.participant.j, j.restore.j, j.failed.j, j.ending.j = j, j, j, j, j
	j.report.Init(j.id, reportedJob{j})
	return j
}

// localCapsule is a capsule on this node.
type localCapsule struct {
	j            *job
	index        int
	capsule      *capsule.Capsule
	devices      *life.Server       // nil: the capsule has no devices. Does not change
	outside      *outside.Forwarder // nil: its connections to outside do not go through a relay. Does not change
	stopWatching func()             // ends the goroutines that watch the capsule

	restoring restoreTurns // taken before job.mu

	changesIdle chan struct{} // closed when no goroutine writes to change list any more

	sruns  steps.Sruns
	inputs processes.KeptInputs // of the programs' wardens in the attempt in progress

	// Protected by job.mu. note is saved after each change.
	note         capsuleNote
	criuRestored map[string]bool                      // programs that CRIU has restored in this run
	endedBefore  map[string]syscall.WaitStatus        // programs that had ended when the attempt in progress began
	dumped       map[string]*criu.Image               // programs that CRIU has dumped in the attempt in progress
	observed     map[string]syscalls.WaitObservations // programs as they were before they were frozen
	scriptEnded  bool                                 // the event of the batch script's end has arrived

	forgetting sync.Mutex // held while old changes are removed from change list, and from a dump's choice of a mark until it has the changes since

	changes      *files.ChangeList // records what programs do to files. Does not change
	manyFiles    bool              // the newest dump recorded many files or bytes; false before this daemon's first dump
	newFileBytes uint64            // bytes of changed files that the newest dump wrote; 0 before this daemon's first dump
}

// capsuleNote is the part of a capsule's state that a successor of this daemon needs. It is saved
// as LIB/notes/JOB.K.json. Some keys are older than the names of their fields: they stay, so that a new daemon reads the notes of
// an old daemon.
type capsuleNote struct {
	Job               uint32            `json:"job"`
	Index             int               `json:"index"`
	Run               int               `json:"run"`
	Nodes             []string          `json:"today"`             // nodes of this run
	ResumedFrom       uint32            `json:"from,omitempty"`    // number of the restored checkpoint
	ProgramsToRestore []string          `json:"left,omitempty"`    // programs that are not restored yet
	NetworkLocked     bool              `json:"shut,omitempty"`    // the network is locked until all programs of the job are restored
	Script            string            `json:"script,omitempty"`  // path of the batch script
	SrunKeys          int               `json:"sruns"`             // number of srun keys given so far
	WardenPIDs        map[string]int    `json:"wardens"`           // PIDs of the wardens, by program
	WardenStarts      map[string]uint64 `json:"started,omitempty"` // when these processes began
	FirstEnv          map[string]string `json:"env,omitempty"`     // SLURM_* variables of the batch script in the first run
	RunEnv            map[string]string `json:"now,omitempty"`     // SLURM_* variables of the batch script in this run
	GPUs              []string          `json:"gpus,omitempty"`    // Slurm's number of the GPU of each device, in this run
	OwnGPUs           int               `json:"own_gpus,omitempty"`
	Leases            []gpus.Lease      `json:"leases,omitempty"` // jobs that lend it their GPUs
	Groups            []uint32          `json:"groups,omitempty"` // supplementary groups of the processes
	Logs              []string          `json:"logs,omitempty"`   // files that Slurm writes
	TaskCounts        map[string]int    `json:"tasks,omitempty"`  // number of tasks of each step, on all nodes
	Attempt           *pendingAttempt   `json:"attempt,omitempty"`
	LastCut           uint64            `json:"last_cut,omitempty"` // number of the last attempt at a cut that the leader has begun
	Links             []string          `json:"links,omitempty"`    // names of removed files during a dump, or until their programs are restored
	Renamed           map[string]string `json:"renamed,omitempty"`  // names of such files at a restore

	Outside *outside.Note `json:"outside,omitempty"` // of the capsule's forwarder

	Containers     []capsule.Container `json:"containers,omitempty"`      // containers that the capsule shows
	PastContainers []capsule.Container `json:"past_containers,omitempty"` // the newest that it has shown

	FinishedTasks map[string]syscall.WaitStatus `json:"finished,omitempty"` // tasks that ended before the restored checkpoint
}

// pendingAttempt is a checkpoint in progress, for a successor of this daemon.
type pendingAttempt struct {
	Number  uint32 `json:"number"`
	Release bool   `json:"release"`
}

// attemptNumber returns the number of the checkpoint in progress, 0 if there is none. Caller holds j.mu.
func (n *capsuleNote) attemptNumber() uint32 {
	if n.Attempt == nil {
		return 0
	}
	return n.Attempt.Number
}

// saveNote saves a capsule's note on this node's disk. Caller holds j.mu, so that notes are saved in the order of their
// changes.
func (lc *localCapsule) saveNote() {
	j := lc.j
	if err := records.WriteJSON(j.c.folders().notePath(j.id, lc.index), lc.note); err != nil {
		// The capsule runs on. Only a crash of this daemon would lose state now.
		j.log.Error("cannot save a capsule's note", "capsule", lc.index, "error", err)
	}
}

func readNote(path string) (capsuleNote, error) {
	var n capsuleNote
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, &n)
	}
	return n, err
}

// localCapsules returns the capsules on this node, by index.
func (j *job) localCapsules() []*localCapsule {
	j.mu.Lock()
	defer j.mu.Unlock()
	var all []*localCapsule
	for _, k := range slices.Sorted(maps.Keys(j.capsules)) {
		all = append(all, j.capsules[k])
	}
	return all
}

// slurmName returns the job's name for Slurm's commands.
func (j *job) slurmName() string {
	if rec := j.run.Snapshot().Record; rec != nil {
		return rec.Slurm
	}
	return slurm.JobName(j.id)
}

// submittedAt distinguishes the job from an earlier job of the same number.
func (j *job) submittedAt() string {
	if rec := j.run.Snapshot().Record; rec != nil {
		return rec.Submitted
	}
	return ""
}

// leaderNode returns the node of capsule 0, where the batch script runs.
func (j *job) leaderNode() string {
	return j.run.Snapshot().Placement.NodeOf(0)
}

// isLeader tells whether this node leads the job. No node is known to lead before the run has been
// looked up in Slurm for the first task.
func (j *job) isLeader() bool {
	snap := j.run.Snapshot()
	return snap.Record != nil && snap.Placement.NodeOf(0) == j.c.Node
}

// removeCapsule ends a capsule and removes everything that belongs to it.
func (lc *localCapsule) removeCapsule(ctx context.Context) error {
	j := lc.j
	lc.stopWatching()
	lc.inputs.Close()
	if err := lc.sruns.Kill(ctx); err != nil {
		j.log.Warn("cannot end the sruns", "error", err)
	}
	err := errors.Join(
		lc.capsule.Remove(ctx),
		lc.endDevices(ctx),
		outsideOf(lc).endForwarder(ctx),
		j.c.Overlay.Detach(ctx, capsuleName(j.id, lc.index)),
		lc.removeChangeList(),
	)
	if err != nil {
		return fmt.Errorf("capsule %d.%d: %w", j.id, lc.index, err)
	}
	j.mu.Lock()
	delete(j.capsules, lc.index)
	j.mu.Unlock()
	if err := os.Remove(j.c.folders().notePath(j.id, lc.index)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.RemoveAll(j.c.folders().srunDir(j.id, lc.index))
}

// removeRun ends a run on this node and removes everything that belongs to it. Caller holds capsulesMu.
func (j *job) removeRun(ctx context.Context) error {
	var errs []error
	j.c.leases.cancelFor(ctx, j)
	for _, lc := range j.localCapsules() {
		errs = append(errs, lc.removeCapsule(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	j.mu.Lock()
	if j.stopPeriodic != nil {
		j.stopPeriodic()
		j.stopPeriodic = nil
		j.lookedAt = false
	}
	j.mu.Unlock()
	j.run.ClosePoint()
	j.termination.ForgetWithheld()
	return j.c.Overlay.SetPeers(ctx, slurm.JobName(j.id), nil)
}

// capsuleName returns the name of a capsule in the network and of its folders.
func capsuleName(job uint32, index int) string { return fmt.Sprintf("%d.%d", job, index) }

// reportedJob is a job as reports see it.
type reportedJob struct{ j *job }

// Services implements reports.Subject.
func (r reportedJob) Services() reports.Services {
	c := r.j.c
	return reports.Services{Comments: c.slurmComments(), Timeline: c.timeline, Meter: c.Meter, StartBackground: c.startBackground}
}

// SlurmName implements reports.Subject.
func (r reportedJob) SlurmName() string { return r.j.slurmName() }

// Log implements reports.Subject.
func (r reportedJob) Log() *slog.Logger { return r.j.log }

// OpenScript implements reports.Subject.
func (r reportedJob) OpenScript(ctx context.Context) (*reports.Script, error) {
	j := r.j
	if !j.isLeader() {
		return nil, nil //nolint:nilnil // no error: another node writes
	}
	j.mu.Lock()
	lc := j.capsules[0]
	var warden processes.Process
	if lc != nil {
		warden = lc.note.wardenOf(records.BatchProgram)
	}
	j.mu.Unlock()
	if lc == nil {
		return nil, nil //nolint:nilnil // no error: the capsule is gone
	}
	pid, err := processes.FirstProcess(ctx, lc.capsule, records.BatchProgram)
	if err != nil {
		return nil, err
	}
	rec := j.run.Snapshot().Record
	return &reports.Script{PID: pid, UID: rec.UID, GID: rec.GID, Cgroup: processes.OwnCgroup(j.c.Cgroups, warden)}, nil
}
