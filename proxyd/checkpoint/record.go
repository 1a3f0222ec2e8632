// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// Record is what all nodes know of a job, from its first start to its end: among other things the
// nodes of the first run, and the addresses that its capsules keep on whatever nodes they are.
type Record struct {
	Job            uint32       `json:"job"`
	Slurm          string       `json:"slurm"` // "812", or "812_3" for a task of an array
	UID            uint32       `json:"uid"`
	GID            uint32       `json:"gid"`
	Submitted      string       `json:"submitted"` // time of submission: distinguishes jobs of the same number
	Nodes          []string     `json:"nodes"`     // of the first run; the k-th is the host name of capsule k
	Addresses      []netip.Addr `json:"addresses"`
	GPUs           []int        `json:"gpus,omitempty"` // number of each capsule's GPUs in the first run, if device servers hold them
	Options        Options      `json:"options"`
	Kit            string       `json:"kit"`               // hash of the kit that its programs use
	LastNumber     uint32       `json:"last,omitempty"`    // highest number given to a checkpoint
	BeginAnew      bool         `json:"restart,omitempty"` // the next run begins anew
	UnrestoredRuns int          `json:"cut,omitempty"`     // runs in a row that ended before their restore was complete
	RequeuedBy     string       `json:"outlast,omitempty"` // node that owes the requeue after the time limit
}

// Options are the options of sbatch that the user gave.
type Options struct {
	Interval  time.Duration `json:"interval"` // 0: as configured
	GPUs      string        `json:"gpus,omitempty"`
	OnFailure string        `json:"on_failure,omitempty"` // "restart" or "hold"; "": as configured
	Exact     bool          `json:"exact,omitempty"`      // reductions give the same bits on any placement of the ranks
	Exclude   []string      `json:"exclude,omitempty"`
}

// parseOptions parses the options as the plugin sends them. The plugin has checked the values.
func parseOptions(given map[string]string) (Options, error) {
	o := Options{GPUs: given["gpus"], OnFailure: given["on_failure"], Exact: given["exact"] == "yes"}
	if s := given["interval"]; s != "" {
		n, err := strconv.ParseUint(s, 10, 31)
		if err != nil {
			return o, fmt.Errorf("interval=%q: want seconds", s)
		}
		o.Interval = time.Duration(n) * time.Second
	}
	if s := given["exclude"]; s != "" {
		o.Exclude = strings.Split(s, ",")
	}
	return o, nil
}

// records stores the records in a folder that all nodes share and only root may write.
type records struct{ dir string }

func (r records) path(job uint32) string {
	return filepath.Join(r.dir, strconv.FormatUint(uint64(job), 10)+".json")
}

// load returns nil, nil for a job without a record.
func (r records) load(job uint32) (*Record, error) {
	b, err := os.ReadFile(r.path(job))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	rec := &Record{}
	if err := json.Unmarshal(b, rec); err != nil {
		return nil, fmt.Errorf("%s: %w", r.path(job), err)
	}
	if rec.Job != job || len(rec.Nodes) == 0 || len(rec.Addresses) != len(rec.Nodes) {
		return nil, fmt.Errorf("%s: not a job's record", r.path(job))
	}
	return rec, nil
}

// Owner returns the user of a job, if the job has a record.
func (c *Conductor) Owner(job string) (uid uint32, known bool) {
	id, err := parseJobName(job)
	if err != nil {
		return 0, false
	}
	rec, err := c.records.load(id)
	if err != nil || rec == nil {
		return 0, false
	}
	return rec.UID, true
}

// Over tells whether a job of this cluster has ended: it has no record.
func (c *Conductor) Over(job store.JobID) bool {
	if job.Cluster != c.Cluster {
		return false // The records of another cluster lie elsewhere.
	}
	_, err := os.Lstat(c.records.path(job.Job))
	return errors.Is(err, fs.ErrNotExist)
}

func (r records) save(rec *Record) error {
	return writeJSON(r.path(rec.Job), rec)
}

// remove removes a record. It may be called twice.
func (r records) remove(job uint32) error {
	err := os.Remove(r.path(job))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// writeJSON writes a file atomically and durably.
func writeJSON(path string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return replaceFile(path, func(f *os.File) error {
		_, err := f.Write(b)
		return err
	})
}

// replaceFile replaces a file atomically and durably. fill writes the contents.
func replaceFile(path string, fill func(*os.File) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	err = fill(f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
