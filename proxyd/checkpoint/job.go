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
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/life"
	"github.com/singularity-slurm/singularity-slurm/proxyd/files"
	"github.com/singularity-slurm/singularity-slurm/proxyd/srun"
)

// job is what this node has of a job.
type job struct {
	c   *Conductor
	id  uint32
	log *slog.Logger

	// raising is held by the one who makes capsules, opening by the one who lets a restored
	// job go on; mu protects what follows, and is never held across a call that waits. The
	// others are taken before mu.
	capsulesMu sync.Mutex
	completeMu sync.Mutex

	mu              sync.Mutex
	rec             *Record // nil: nothing is known yet
	run             int     // restarts that this run began with
	placement       placement
	capsules        map[int]*localCapsule
	resumePoint     *resumePoint     // nil: this run began anew
	ledAttempt      *attempt         // of this node as the leader
	membership      *membership      // of this node in an attempt, its own or another's
	withheld        []withheldSignal // programs for which a SIGTERM is withheld
	deciding        bool             // somebody decides about asked
	endDecided      bool             // and has
	released        bool             // this run was captured and released, to be run again
	signalForwarded bool             // programs of this run were told to end: what is left is not whole
	restored        bool             // all programs of from are
	givenUp         bool             // this run cannot be restored, and is being ended by us
	stopPeriodic    func()           // stops the periodic checkpoints
	lastObstacles   []Obstacle       // found by the last attempt
}

// localCapsule is a capsule on this node.
type localCapsule struct {
	index        int
	capsule      *capsule.Capsule
	devices      *life.Server // nil: it has none; does not change
	stopWatching func()       // ends its watch

	journalIdle chan struct{} // closed when nobody writes to journal any more

	// Protected by job.mu; saved with each change.
	note            capsuleNote
	sruns           map[string]*srun.Runner
	unreportedSruns map[string]bool // sruns whose end nobody was told
	scriptEnded     bool            // it was heard that the batch script has ended

	journal        *files.Journal // what its programs do to files; does not change
	committedFiles *files.State   // of the newest checkpoint, or the one that it was restored from
	dumpedFiles    *files.State   // of the one that is being made
}

// capsuleNote is what must be known of a capsule after this daemon was killed.
type capsuleNote struct {
	Job               uint32            `json:"job"`
	Index             int               `json:"index"`
	Run               int               `json:"run"`
	Nodes             []string          `json:"today"`            // the run's nodes
	ResumedFrom       uint32            `json:"from,omitempty"`   // checkpoint that it was restored from
	ProgramsToRestore []string          `json:"left,omitempty"`   // programs that are still to be restored
	NetworkLocked     bool              `json:"shut,omitempty"`   // no packet passes until all of the job's are
	Script            string            `json:"script,omitempty"` // path of the batch script
	SrunKeys          int               `json:"sruns"`            // keys given so far
	WardenPIDs        map[string]int    `json:"wardens"`          // PIDs, by program
	FirstEnv          map[string]string `json:"env,omitempty"`    // SLURM_* that the batch script began with
	RunEnv            map[string]string `json:"now,omitempty"`    // and those of this run
	GPUs              []string          `json:"gpus,omitempty"`   // how Slurm means those that it has, in this run
	Groups            []uint32          `json:"groups,omitempty"` // supplementary, of its processes
	Logs              []string          `json:"logs,omitempty"`   // files that Slurm writes
	TaskCounts        map[string]int    `json:"tasks,omitempty"`  // how many a step has, on all nodes
	Attempt           *pendingAttempt   `json:"attempt,omitempty"`

	FinishedTasks map[string]syscall.WaitStatus `json:"finished,omitempty"` // tasks that ended before the checkpoint
}

// pendingAttempt is a checkpoint that was being made.
type pendingAttempt struct {
	Number  uint32 `json:"number"`
	Release bool   `json:"release"`
}

func (c *Conductor) notePath(job uint32, index int) string {
	return filepath.Join(c.notesDir(), fmt.Sprintf("%d.%d.json", job, index))
}

func (c *Conductor) capsuleDir(job uint32, index int) string {
	return filepath.Join(c.capsulesDir(), fmt.Sprintf("%d.%d", job, index))
}

// saveNote writes a capsule's note. Caller holds j.mu.
func (j *job) saveNote(lc *localCapsule) {
	if err := writeJSON(j.c.notePath(j.id, lc.index), lc.note); err != nil {
		// The capsule runs on; only a crash of this daemon would now lose something.
		j.log.Error("note", "capsule", lc.index, "error", err)
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

// localCapsules returns those that are here, in order.
func (j *job) localCapsules() []*localCapsule {
	j.mu.Lock()
	defer j.mu.Unlock()
	var all []*localCapsule
	for _, k := range slices.Sorted(maps.Keys(j.capsules)) {
		all = append(all, j.capsules[k])
	}
	return all
}

// slurmName is the job's name for Slurm's commands.
func (j *job) slurmName() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.rec == nil {
		return jobName(j.id)
	}
	return j.rec.Slurm
}

// submittedAt tells the job from another that had its number.
func (j *job) submittedAt() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.rec == nil {
		return ""
	}
	return j.rec.Submitted
}

// leaderNode is the node of the first capsule: the batch script's.
func (j *job) leaderNode() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.placement.nodeOf(0)
}

// removeCapsule removes a capsule and everything of it.
func (j *job) removeCapsule(ctx context.Context, lc *localCapsule) error {
	lc.stopWatching()
	j.mu.Lock()
	runners := slices.Collect(maps.Values(lc.sruns))
	j.mu.Unlock()
	for _, r := range runners {
		if err := r.Kill(ctx); err != nil {
			j.log.Warn("end srun", "error", err)
		}
	}
	err := errors.Join(
		lc.capsule.Remove(ctx),
		lc.endDevices(ctx),
		j.c.Overlay.Detach(ctx, capsuleName(j.id, lc.index)),
		j.removeJournal(lc),
	)
	if err != nil {
		return fmt.Errorf("capsule %d.%d: %w", j.id, lc.index, err)
	}
	j.mu.Lock()
	delete(j.capsules, lc.index)
	j.mu.Unlock()
	if err := os.Remove(j.c.notePath(j.id, lc.index)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.RemoveAll(j.c.srunDir(j.id, lc.index))
}

// removeRun ends a run on this node: afterwards nothing of it is here.
func (j *job) removeRun(ctx context.Context) error {
	var errs []error
	for _, lc := range j.localCapsules() {
		errs = append(errs, j.removeCapsule(ctx, lc))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.stopPeriodic != nil {
		j.stopPeriodic()
		j.stopPeriodic = nil
	}
	j.resumePoint.close()
	j.resumePoint, j.withheld = nil, nil
	return j.c.Overlay.SetPeers(ctx, jobName(j.id), nil)
}

// capsuleName is a capsule's name in the network.
func capsuleName(job uint32, index int) string { return fmt.Sprintf("%d.%d", job, index) }
