// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/durable"
	"github.com/singularity-slurm/singularity-slurm/proxyd/files"
)

// Record has the facts about a job that all nodes share, from its first start to its end: among other things the nodes
// of the first run, and the addresses that its capsules keep on all later nodes. Some keys are older than the names of
// their fields: they stay, so that a new daemon reads the records of an old daemon.
type Record struct {
	Job        uint32       `json:"job"`
	Slurm      string       `json:"slurm"` // "812", or "812_3" for a task of an array
	UID        uint32       `json:"uid"`
	GID        uint32       `json:"gid"`
	Submitted  string       `json:"submitted"` // time of submission: distinguishes jobs of the same number
	Nodes      []string     `json:"nodes"`     // of the first run; the k-th is the host name of capsule k
	Addresses  []netip.Addr `json:"addresses"`
	GPUs       []int        `json:"gpus,omitempty"` // number of each capsule's GPUs in the first run, if device servers hold them
	Options    Options      `json:"options"`
	Kit        string       `json:"kit"`               // hash of the kit that its programs use
	LastNumber uint32       `json:"last,omitempty"`    // highest number given to a checkpoint
	BeginAnew  bool         `json:"restart,omitempty"` // the next run begins anew
	// DeletedNumber is the highest number of the checkpoints that were deleted when a run began anew. The job's comment may
	// still name one of them.
	DeletedNumber uint32 `json:"deleted,omitempty"`
	// RunsBegun is the number of the newest run that has begun, from 1 on; 0: not known. No earlier run makes a checkpoint.
	RunsBegun int `json:"runs_begun,omitempty"`
	// ScriptUnbegun is true until a run has admitted the batch script: nothing of the job has run before that.
	ScriptUnbegun  bool `json:"script_unbegun,omitempty"`
	UnrestoredRuns int  `json:"cut,omitempty"` // runs in a row that ended before their restore was complete
	// LastUnrestoredRun is the newest of these runs: several nodes may count the same run.
	LastUnrestoredRun int `json:"cut_run,omitempty"`
	FailedLaunches    int `json:"failed_launches,omitempty"` // restored runs that were given up because srun said that the launch of a step had failed
	// FailedLaunchRun is the newest of these runs: several of its steps may fail.
	FailedLaunchRun int    `json:"failed_launch_run,omitempty"`
	RequeuedBy      string `json:"outlast,omitempty"` // node that owes the requeue after the time limit
}

// MaxUnrestoredRuns bounds the runs in a row that end before their restore is complete. After that the job is held for a
// person.
const MaxUnrestoredRuns = 3

// CountUnrestoredRun counts a run that ended before its restore was complete, and returns how many such runs there were
// in a row, with this run. Each run is counted once, although several nodes may count it. With more than
// MaxUnrestoredRuns the job is to be held. Then the count begins again: a person releases the job.
func (r *Record) CountUnrestoredRun(run int) int {
	switch {
	case r.LastUnrestoredRun == run && r.UnrestoredRuns > 0: // Another node has counted it.
		return r.UnrestoredRuns
	case r.LastUnrestoredRun == run && run > 0: // Another node has counted it, and has held the job.
		return MaxUnrestoredRuns + 1
	}
	r.UnrestoredRuns++
	r.LastUnrestoredRun = run
	tried := r.UnrestoredRuns
	if tried > MaxUnrestoredRuns {
		r.UnrestoredRuns = 0
	}
	return tried
}

// Options are the options of sbatch that the user gave.
type Options struct {
	Interval  time.Duration `json:"interval"` // 0: as configured
	GPUs      string        `json:"gpus,omitempty"`
	OnFailure string        `json:"on_failure,omitempty"` // "restart" or "hold"; "": as configured
	Outside   string        `json:"outside,omitempty"`    // "reset", "relay" or "refuse"; "": as configured
	Listen    []uint16      `json:"listen,omitempty"`     // ports that clients outside reach by way of the site's relay
	Exact     bool          `json:"exact,omitempty"`      // reductions give the same bits on any placement of the ranks
	Exclude   []string      `json:"exclude,omitempty"`
}

// ParseOptions parses the options as the plugin sends them. The plugin has checked the values.
func ParseOptions(given map[string]string) (Options, error) {
	o := Options{GPUs: given["gpus"], OnFailure: given["on_failure"], Outside: given["outside"], Exact: given["exact"] == "yes"}
	if s := given["interval"]; s != "" {
		n, err := strconv.ParseUint(s, 10, 31)
		if err != nil {
			return o, fmt.Errorf("interval=%q: want seconds", s)
		}
		o.Interval = time.Duration(n) * time.Second
	}
	if s := given["listen"]; s != "" {
		if err := o.parseListen(s); err != nil {
			return o, err
		}
	}
	if s := given["exclude"]; s != "" {
		o.Exclude = strings.Split(s, ",")
	}
	return o, nil
}

// errListenOutside refuses a job.
var errListenOutside = errors.New("--singularity-listen: clients come by way of the site's relay: submit the job with --singularity-outside=relay, or without that option")

// Bounds of the ports that clients outside shall reach: as the plugin has them.
const (
	maxListen         = 16
	firstUnprivileged = 1024
)

// parseListen parses the ports that clients outside shall reach, which is done by the site's relay.
func (o *Options) parseListen(s string) error {
	for port := range strings.SplitSeq(s, ",") {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n < firstUnprivileged || len(o.Listen) == maxListen {
			return fmt.Errorf("listen=%.100q: want up to %d ports from %d on", s, maxListen, firstUnprivileged)
		}
		o.Listen = append(o.Listen, uint16(n))
	}
	if o.Outside != "" && o.Outside != "relay" {
		return errListenOutside
	}
	o.Outside = "relay"
	return nil
}

// RelayKey distinguishes a job of a cluster from all other jobs, for the site's relay.
func (r *Record) RelayKey(cluster string) string {
	return fmt.Sprintf("%s/%d/%s", cluster, r.Job, r.Submitted)
}

// MostGPUs is how many GPUs the user lets the job have, of all capsules; 0: no more than the job asked Slurm for.
func (o *Options) MostGPUs() int {
	_, most, _ := strings.Cut(o.GPUs, "-")
	n, err := strconv.Atoi(most)
	if err != nil {
		return 0
	}
	return n
}

// Folder is the folder of the jobs' records, which all nodes share and only root may write.
type Folder struct{ Dir string }

// Path is the path of a job's record.
func (r Folder) Path(job uint32) string {
	return filepath.Join(r.Dir, strconv.FormatUint(uint64(job), 10)+".json")
}

// Load returns nil, nil for a job without a record.
func (r Folder) Load(job uint32) (*Record, error) {
	b, err := os.ReadFile(r.Path(job))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	rec := &Record{}
	if err := json.Unmarshal(b, rec); err != nil {
		return nil, fmt.Errorf("%s: %w", r.Path(job), err)
	}
	if rec.Job != job || len(rec.Nodes) == 0 || len(rec.Addresses) != len(rec.Nodes) {
		return nil, fmt.Errorf("%s: not a job's record", r.Path(job))
	}
	return rec, nil
}

// LoadAll returns the records that can be read.
func (r Folder) LoadAll() ([]*Record, error) {
	entries, err := os.ReadDir(r.Dir)
	if err != nil {
		return nil, err
	}
	var all []*Record
	for _, e := range entries {
		number, ok := strings.CutSuffix(e.Name(), ".json")
		id, err := strconv.ParseUint(number, 10, 32)
		if !ok || err != nil {
			continue
		}
		if rec, err := r.Load(uint32(id)); err == nil && rec != nil {
			all = append(all, rec)
		}
	}
	return all, nil
}

// Save replaces the record of a job.
func (r Folder) Save(rec *Record) error {
	return WriteJSON(r.Path(rec.Job), rec)
}

// Remove removes a record. A second call is harmless.
func (r Folder) Remove(job uint32) error { return removeIfThere(r.Path(job)) }

// ScriptPath is the path of the batch script's copy, which exists from the job's first start to
// its end.
func (r Folder) ScriptPath(job uint32) string {
	return filepath.Join(r.Dir, strconv.FormatUint(uint64(job), 10)+".script")
}

// SaveScript copies the batch script of a job that begins.
func (r Folder) SaveScript(job uint32, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	st, err := in.Stat()
	if err != nil {
		return err
	}
	return durable.Replace(r.ScriptPath(job), func(out *os.File) error {
		_, err := io.Copy(out, in)
		return errors.Join(err, out.Chmod(0o500|st.Mode().Perm()&0o055), copyOwner(out, st))
	})
}

func copyOwner(f *os.File, st os.FileInfo) error {
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	return f.Chown(int(sys.Uid), int(sys.Gid))
}

// RemoveScript removes the copy of the batch script. A second call is harmless.
func (r Folder) RemoveScript(job uint32) error { return removeIfThere(r.ScriptPath(job)) }

// ChangedFilesPath is the path of the shared copy of the list of files that a capsule has changed (package files).
func (r Folder) ChangedFilesPath(job uint32, index int) string {
	return filepath.Join(r.Dir, fmt.Sprintf("%d.%d.files", job, index))
}

// RemoveChangedFiles removes the lists of changed files of a job that is over.
func (r Folder) RemoveChangedFiles(job uint32) error {
	lists := filepath.Join(r.Dir, fmt.Sprintf("%d.*.files", job))
	all, err := filepath.Glob(lists)
	unfinished, newErr := filepath.Glob(lists + files.NewName)
	err = errors.Join(err, newErr)
	for _, path := range slices.Concat(all, unfinished) {
		err = errors.Join(err, removeIfThere(path))
	}
	return err
}

func removeIfThere(path string) error {
	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// WriteJSON writes a file atomically and durably.
func WriteJSON(path string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return durable.Replace(path, func(f *os.File) error {
		_, err := f.Write(b)
		return err
	})
}
