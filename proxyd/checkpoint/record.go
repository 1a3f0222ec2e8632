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
	"syscall"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// Record is what all nodes know of a job from its first start to its end: which nodes
// it began on, and the addresses that its capsules have wherever they are.
type Record struct {
	Job            uint32              `json:"job"`
	Slurm          string              `json:"slurm"` // its name there: "812", or "812_3" for a task of an array
	UID            uint32              `json:"uid"`
	GID            uint32              `json:"gid"`
	Submitted      string              `json:"submitted"` // another job may have had this number
	Nodes          []string            `json:"nodes"`     // of the first run; the k-th is capsule k's host name
	Addresses      []netip.Addr        `json:"addresses"`
	GPUs           []int               `json:"gpus,omitempty"` // that each capsule began with, if device servers hold them
	Options        Options             `json:"options"`
	Kit            string              `json:"kit"`               // what its programs have of ours, by its hash
	LastNumber     uint32              `json:"last,omitempty"`    // the highest number that a checkpoint was given
	BeginAnew      bool                `json:"restart,omitempty"` // the next run is to begin anew
	UnrestoredRuns int                 `json:"cut,omitempty"`     // runs in a row that were over before they were whole
	ScriptStatus   *syscall.WaitStatus `json:"over,omitempty"`    // how the script ended, which Slurm has requeued since
	RequeuedBy     string              `json:"outlast,omitempty"` // the node that is to have the job requeued, which was at its time limit
}

// Options are what the user asked for.
type Options struct {
	Interval  time.Duration `json:"interval"` // 0: the node's default
	GPUs      string        `json:"gpus,omitempty"`
	OnFailure string        `json:"on_failure,omitempty"` // "restart", or hold
	Exact     bool          `json:"exact,omitempty"`      // reductions over devices do not depend on where these are
	Exclude   []string      `json:"exclude,omitempty"`
}

// parseOptions reads what the plugin sent; it has checked the values.
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

// records keeps the records in a folder that all nodes share and only root may write.
type records struct{ dir string }

func (r records) path(job uint32) string {
	return filepath.Join(r.dir, strconv.FormatUint(uint64(job), 10)+".json")
}

// load returns nil, nil for a job that has none.
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

// Owner returns whose job that is, if it has a record.
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

// Over says that a job of this cluster has ended: it has no record any more.
func (c *Conductor) Over(job store.JobID) bool {
	if job.Cluster != c.Cluster {
		return false // its records are elsewhere
	}
	_, err := os.Lstat(c.records.path(job.Job))
	return errors.Is(err, fs.ErrNotExist)
}

func (r records) save(rec *Record) error {
	return writeJSON(r.path(rec.Job), rec)
}

// remove may be called twice.
func (r records) remove(job uint32) error {
	err := os.Remove(r.path(job))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// writeJSON puts a file into place whole, and durably.
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

// replaceFile puts a file into place whole, and durably.
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
