// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package upload

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/durable"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// With a stage, a dump ends on the nodes, and the job runs on or leaves at once. An upload
// follows:
//
//	leader                                     every node             node that restores the job
//	──────                                     ──────────             ──────────────────────────
//	dump                                ─────► writes its share
//	                                           into its own stage
//	commit: its own share, with Meta
//	        write SHARED/jobs/JOB.pledge ◄── from here on no rule deletes the base
//	        check that the base exists, then rename JOB.pledge to
//	        SHARED/jobs/JOB.upload ◄── from here on this checkpoint counts, and no older checkpoint
//	resume or release: the nodes are free
//	take the lease in the store; check JOB.upload                     sees JOB.upload, and waits:
//	calls.UploadShare                   ─────► chunks to the store    asks the nodes for their progress
//	check JOB.upload; commit the manifest
//	remove JOB.upload                                                 restores
//	calls.DropShare                     ─────► deletes its share
//
// Each step may be repeated: a leader that was killed starts again from its record and its share,
// and finds the chunks that are stored already. If a node has lost its share, the record says
// that the checkpoint is lost, and the job resumes from the previous checkpoint.
//
// A node that declares an upload lost first writes that into the record, then fences the lease of
// the upload, then looks for the manifest. The leader reads the record after it has taken the
// lease. So an upload that was declared lost is either seen as committed, or is never committed.

// Record is the record of a checkpoint that is staged on its nodes and not in the store yet. A
// job has at most one: its newest checkpoint.
type Record struct {
	Job          uint32    `json:"job"`
	Number       uint32    `json:"number"`
	Made         time.Time `json:"made"` // distinguishes checkpoints of the same number
	Slurm        string    `json:"slurm"`
	UID          uint32    `json:"uid"`
	Submitted    string    `json:"submitted"`
	Reason       string    `json:"reason"`
	Leader       string    `json:"leader"`
	Nodes        []string  `json:"nodes"`          // nodes with a share
	Bytes        uint64    `json:"bytes"`          // upper bound of the space needed in the store
	Base         uint32    `json:"base,omitempty"` // checkpoint in the store with streams that the shares refer to
	Released     bool      `json:"left"`           // the job was released after this checkpoint
	Lost         string    `json:"lost,omitempty"`
	HoldReported bool      `json:"told,omitempty"` // the job was held because this checkpoint is lost
}

// IsSame tells whether two records describe the same checkpoint.
func (u *Record) IsSame(o *Record) bool {
	return o != nil && u.Number == o.Number && u.Made.Equal(o.Made)
}

// idOf returns the name in the store of an upload's checkpoint.
func (u *Uploads) idOf(up *Record) store.ID {
	return store.ID{JobID: store.PlainJob(u.Cluster, up.Job), Number: up.Number}
}

// uploadFolder stores the records of uploads, beside the records of jobs.
type uploadFolder struct {
	dir string
	mu  sync.Mutex // held for read-modify-write of a record, and for the deletion of a checkpoint that might be a base
}

const (
	uploadSuffix = ".upload"
	pledgeSuffix = ".pledge" // an upload that does not count yet
)

func (f *uploadFolder) recordPath(job uint32, suffix string) string {
	return filepath.Join(f.dir, strconv.FormatUint(uint64(job), 10)+suffix)
}

// loadRecord returns nil, nil for a job without an upload.
func (f *uploadFolder) loadRecord(job uint32) (*Record, error) {
	return f.readRecord(job, uploadSuffix)
}

func (f *uploadFolder) readRecord(job uint32, suffix string) (*Record, error) {
	path := f.recordPath(job, suffix)
	// NFS caches that a file does not exist until its folder is opened.
	d, err := os.Open(f.dir)
	if err != nil {
		return nil, err
	}
	d.Close()
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	up := &Record{}
	if err := json.Unmarshal(b, up); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if up.Job != job || up.Number == 0 || !slices.Contains(up.Nodes, up.Leader) {
		return nil, fmt.Errorf("%s: not an upload's record", path)
	}
	return up, nil
}

func (f *uploadFolder) saveRecord(up *Record) error {
	return records.WriteJSON(f.recordPath(up.Job, uploadSuffix), up)
}

// removeAll removes a job's record, and a pledge left by a killed daemon. A second call is harmless.
func (f *uploadFolder) removeAll(job uint32) error {
	return errors.Join(f.removeRecord(job, uploadSuffix), f.removeRecord(job, pledgeSuffix))
}

func (f *uploadFolder) removeRecord(job uint32, suffix string) error {
	err := os.Remove(f.recordPath(job, suffix))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, durable.SyncFolder(f.dir))
}

// savePledged saves the record as JOB.pledge, calls whole, and renames the record to JOB.upload unless
// whole fails. Caller holds f.mu.
func (f *uploadFolder) savePledged(up *Record, whole func() error) error {
	err := records.WriteJSON(f.recordPath(up.Job, pledgeSuffix), up)
	if err == nil {
		err = whole()
	}
	if err == nil {
		err = os.Rename(f.recordPath(up.Job, pledgeSuffix), f.recordPath(up.Job, uploadSuffix))
	}
	if err != nil {
		return errors.Join(err, f.removeRecord(up.Job, pledgeSuffix))
	}
	return durable.SyncFolder(f.dir)
}

// changeRecord calls edit to change the record of an upload, if the job still has that record. The record
// is removed if edit returns false.
func (f *uploadFolder) changeRecord(up *Record, edit func(*Record) bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	now, err := f.loadRecord(up.Job)
	if err != nil || !up.IsSame(now) {
		return err
	}
	if !edit(now) {
		return f.removeRecord(up.Job, uploadSuffix)
	}
	return f.saveRecord(now)
}

// loadAll returns the records, or the pledges, of all jobs. The error names records that cannot
// be read.
func (f *uploadFolder) loadAll(suffix string) (all []*Record, err error) {
	entries, err := os.ReadDir(f.dir)
	for _, e := range entries {
		text, ok := strings.CutSuffix(e.Name(), suffix)
		job, bad := strconv.ParseUint(text, 10, 32)
		if !ok || bad != nil {
			continue
		}
		up, e := f.readRecord(uint32(job), suffix)
		err = errors.Join(err, e)
		if up != nil {
			all = append(all, up)
		}
	}
	return all, err
}
