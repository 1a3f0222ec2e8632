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
	raising sync.Mutex
	opening sync.Mutex

	mu         sync.Mutex
	rec        *Record // nil: nothing is known yet
	run        int     // restarts that this run began with
	where      placement
	held       map[int]*held
	from       *origin     // nil: this run began anew
	ledAttempt *attempt    // of this node as the leader
	membership *membership // of this node in an attempt, its own or another's
	asked      []asked     // programs for which a SIGTERM is withheld
	judging    bool        // somebody decides about asked
	decided    bool        // and has
	left       bool        // this run was captured and released, to be run again
	told       bool        // programs of this run were told to end: what is left is not whole
	back       bool        // all programs of from are
	gaveUp     bool        // this run cannot be restored, and is being ended by us
	timer      func()      // stops the periodic checkpoints
	blocked    []Obstacle  // found by the last attempt
}

// held is a capsule on this node.
type held struct {
	index   int
	c       *capsule.Capsule
	devices *life.Server // nil: it has none; does not change
	stop    func()       // ends its watch

	listed chan struct{} // closed when nobody writes to journal any more

	// Protected by job.mu; saved with each change.
	note  note
	sruns map[string]*srun.Runner
	kept  map[string]bool // sruns whose end nobody was told
	over  bool            // it was heard that the batch script has ended

	journal *files.Journal // what its programs do to files; does not change
	before  *files.State   // of the newest checkpoint, or the one that it was restored from
	dumped  *files.State   // of the one that is being made
}

// note is what must be known of a capsule after this daemon was killed.
type note struct {
	Job     uint32            `json:"job"`
	Index   int               `json:"index"`
	Run     int               `json:"run"`
	Today   []string          `json:"today"`            // the run's nodes
	From    uint32            `json:"from,omitempty"`   // checkpoint that it was restored from
	Left    []string          `json:"left,omitempty"`   // programs that are still to be restored
	Shut    bool              `json:"shut,omitempty"`   // no packet passes until all of the job's are
	Script  string            `json:"script,omitempty"` // path of the batch script
	Sruns   int               `json:"sruns"`            // keys given so far
	Wardens map[string]int    `json:"wardens"`          // PIDs, by program
	Env     map[string]string `json:"env,omitempty"`    // SLURM_* that the batch script began with
	Now     map[string]string `json:"now,omitempty"`    // and those of this run
	GPUs    []string          `json:"gpus,omitempty"`   // how Slurm means those that it has, in this run
	Groups  []uint32          `json:"groups,omitempty"` // supplementary, of its processes
	Logs    []string          `json:"logs,omitempty"`   // files that Slurm writes
	Tasks   map[string]int    `json:"tasks,omitempty"`  // how many a step has, on all nodes
	Attempt *pending          `json:"attempt,omitempty"`

	Finished map[string]syscall.WaitStatus `json:"finished,omitempty"` // tasks that ended before the checkpoint
}

// pending is a checkpoint that was being made.
type pending struct {
	Number  uint32 `json:"number"`
	Release bool   `json:"release"`
}

func (c *Conductor) notePath(job uint32, index int) string {
	return filepath.Join(c.notes(), fmt.Sprintf("%d.%d.json", job, index))
}

func (c *Conductor) capsuleDir(job uint32, index int) string {
	return filepath.Join(c.capsules(), fmt.Sprintf("%d.%d", job, index))
}

// save writes a capsule's note. Caller holds j.mu.
func (j *job) save(h *held) {
	if err := writeJSON(j.c.notePath(j.id, h.index), h.note); err != nil {
		// The capsule runs on; only a crash of this daemon would now lose something.
		j.log.Error("note", "capsule", h.index, "error", err)
	}
}

func readNote(path string) (note, error) {
	var n note
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, &n)
	}
	return n, err
}

// capsules returns those that are here, in order.
func (j *job) capsules() []*held {
	j.mu.Lock()
	defer j.mu.Unlock()
	var all []*held
	for _, k := range slices.Sorted(maps.Keys(j.held)) {
		all = append(all, j.held[k])
	}
	return all
}

// slurm is the job's name for Slurm's commands.
func (j *job) slurm() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.rec == nil {
		return name(j.id)
	}
	return j.rec.Slurm
}

// submitted tells the job from another that had its number.
func (j *job) submitted() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.rec == nil {
		return ""
	}
	return j.rec.Submitted
}

// leader is the node of the first capsule: the batch script's.
func (j *job) leader() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.where.node(0)
}

// drop removes a capsule and everything of it.
func (j *job) drop(ctx context.Context, h *held) error {
	h.stop()
	j.mu.Lock()
	runners := slices.Collect(maps.Values(h.sruns))
	j.mu.Unlock()
	for _, r := range runners {
		if err := r.Kill(ctx); err != nil {
			j.log.Warn("end srun", "error", err)
		}
	}
	err := errors.Join(
		h.c.Remove(ctx),
		h.endDevices(ctx),
		j.c.Overlay.Detach(ctx, attachment(j.id, h.index)),
		j.dropJournal(h),
	)
	if err != nil {
		return fmt.Errorf("capsule %d.%d: %w", j.id, h.index, err)
	}
	j.mu.Lock()
	delete(j.held, h.index)
	j.mu.Unlock()
	if err := os.Remove(j.c.notePath(j.id, h.index)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.RemoveAll(j.c.srunDir(j.id, h.index))
}

// clear ends a run on this node: afterwards nothing of it is here.
func (j *job) clear(ctx context.Context) error {
	var errs []error
	for _, h := range j.capsules() {
		errs = append(errs, j.drop(ctx, h))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.timer != nil {
		j.timer()
		j.timer = nil
	}
	j.from.close()
	j.from, j.asked = nil, nil
	return j.c.Overlay.SetPeers(ctx, name(j.id), nil)
}

// attachment is a capsule's name in the network.
func attachment(job uint32, index int) string { return fmt.Sprintf("%d.%d", job, index) }
