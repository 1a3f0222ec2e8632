// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
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
//	        SHARED/jobs/JOB.upload ◄── from here on this checkpoint counts, and no older one
//	resume or release: the nodes are free
//	take the lease in the store; check JOB.upload                     sees JOB.upload, and waits:
//	callUpload                          ─────► chunks to the store    asks the nodes for their progress
//	check JOB.upload; commit the manifest
//	remove JOB.upload                                                 restores
//	callDropShare                       ─────► deletes its share
//
// Each step may be repeated: a leader that was killed starts again from its record and its share,
// and finds the chunks that are stored already. If a node has lost its share, the record says
// that the checkpoint is lost, and the job resumes from the previous checkpoint.
//
// A node that declares an upload lost first writes that into the record, then fences the lease of
// the upload, then looks for the manifest. The leader reads the record after it has taken the
// lease. So an upload that was declared lost is either seen as committed, or is never committed.

// Upload is the record of a checkpoint that is staged on its nodes and not in the store yet. A
// job has at most one: its newest checkpoint.
type Upload struct {
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
	Base         uint32    `json:"base,omitempty"` // checkpoint in the store whose streams the shares refer to
	Released     bool      `json:"left"`           // the job was released after this checkpoint
	Lost         string    `json:"lost,omitempty"`
	HoldReported bool      `json:"told,omitempty"` // the job was held because this checkpoint is lost
}

// isSame tells whether two records describe the same checkpoint.
func (u *Upload) isSame(o *Upload) bool {
	return o != nil && u.Number == o.Number && u.Made.Equal(o.Made)
}

func (c *Conductor) uploadID(up *Upload) store.ID {
	return store.ID{JobID: c.storeJob(up.Job), Number: up.Number}
}

// uploads stores the records of uploads, beside those of jobs.
type uploads struct {
	dir string
	mu  sync.Mutex // held for read-modify-write of a record, and for the deletion of a checkpoint that might be a base
}

const (
	uploadSuffix = ".upload"
	pledgeSuffix = ".pledge" // an upload that does not count yet
)

func (u *uploads) path(job uint32, suffix string) string {
	return filepath.Join(u.dir, strconv.FormatUint(uint64(job), 10)+suffix)
}

// load returns nil, nil for a job without an upload.
func (u *uploads) load(job uint32) (*Upload, error) { return u.read(job, uploadSuffix) }

func (u *uploads) read(job uint32, suffix string) (*Upload, error) {
	path := u.path(job, suffix)
	// NFS caches that a file does not exist until its folder is opened.
	d, err := os.Open(u.dir)
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
	up := &Upload{}
	if err := json.Unmarshal(b, up); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if up.Job != job || up.Number == 0 || !slices.Contains(up.Nodes, up.Leader) {
		return nil, fmt.Errorf("%s: not an upload's record", path)
	}
	return up, nil
}

func (u *uploads) save(up *Upload) error { return records.WriteJSON(u.path(up.Job, uploadSuffix), up) }

// removeAll removes a job's record, and a pledge left by a killed daemon. It may be called twice.
func (u *uploads) removeAll(job uint32) error {
	return errors.Join(u.removeRecord(job, uploadSuffix), u.removeRecord(job, pledgeSuffix))
}

func (u *uploads) removeRecord(job uint32, suffix string) error {
	err := os.Remove(u.path(job, suffix))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, records.SyncFolder(u.dir))
}

// pledge saves the record as JOB.pledge, calls whole, and renames the record to JOB.upload unless
// whole fails. Caller holds u.mu.
func (u *uploads) pledge(up *Upload, whole func() error) error {
	err := records.WriteJSON(u.path(up.Job, pledgeSuffix), up)
	if err == nil {
		err = whole()
	}
	if err == nil {
		err = os.Rename(u.path(up.Job, pledgeSuffix), u.path(up.Job, uploadSuffix))
	}
	if err != nil {
		return errors.Join(err, u.removeRecord(up.Job, pledgeSuffix))
	}
	return records.SyncFolder(u.dir)
}

// change calls f to change the record of an upload, if the job still has that record. The record
// is removed if f returns false.
func (u *uploads) change(up *Upload, f func(*Upload) bool) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	now, err := u.load(up.Job)
	if err != nil || !up.isSame(now) {
		return err
	}
	if !f(now) {
		return u.removeRecord(up.Job, uploadSuffix)
	}
	return u.save(now)
}

// LoadAll returns the records, or the pledges, of all jobs. The error names records that cannot
// be read.
func (u *uploads) loadAll(suffix string) (all []*Upload, err error) {
	entries, err := os.ReadDir(u.dir)
	for _, e := range entries {
		text, ok := strings.CutSuffix(e.Name(), suffix)
		job, bad := strconv.ParseUint(text, 10, 32)
		if !ok || bad != nil {
			continue
		}
		up, e := u.read(uint32(job), suffix)
		err = errors.Join(err, e)
		if up != nil {
			all = append(all, up)
		}
	}
	return all, err
}

// errUploadUnwanted ends an upload that was declared lost or replaced by a newer one.
var errUploadUnwanted = errors.New("the upload is not wanted any more")

// checkWanted returns nil while the job's record names this upload.
func (c *Conductor) checkWanted(up *Upload) error {
	now, err := c.uploads.load(up.Job)
	if err == nil && (!up.isSame(now) || now.Lost != "") {
		err = errUploadUnwanted
	}
	return err
}

// pledgeUpload makes a staged checkpoint count.
func (a *attempt) pledgeUpload(ctx context.Context) error {
	j := a.j
	var bytes uint64
	for _, r := range a.reports {
		bytes += r.Bytes
	}
	j.mu.Lock()
	a.upload = &Upload{
		Job: j.id, Number: a.id.Number, Made: time.Now().UTC(), Slurm: j.rec.Slurm, UID: j.rec.UID, Submitted: j.rec.Submitted,
		Reason: a.reason, Leader: j.c.Node, Nodes: a.nodes, Bytes: bytes, Base: a.base, Released: a.after != forwardSignal,
	}
	j.mu.Unlock()
	j.c.uploads.mu.Lock()
	defer j.c.uploads.mu.Unlock()
	return j.c.uploads.pledge(a.upload, func() error { return j.c.checkBaseStored(ctx, a.upload) })
}

// abandonUpload ends a job's upload, because none of its checkpoints is needed any more.
func (c *Conductor) abandonUpload(ctx context.Context, job uint32) error {
	up, err := c.uploads.load(job)
	if err != nil || up == nil {
		return err
	}
	if err := c.uploads.removeAll(job); err != nil {
		return err
	}
	return c.Store.Fence(ctx, c.uploadID(up))
}

// replaceUpload ends the upload of a checkpoint that is older than the newest in the store.
func (c *Conductor) replaceUpload(job uint32) error {
	c.mu.Lock()
	b := c.activeUploads[job]
	c.mu.Unlock()
	if b != nil {
		b.cancel()
	}
	c.uploads.mu.Lock()
	defer c.uploads.mu.Unlock()
	return c.uploads.removeAll(job)
}

// Uploads returns the checkpoints of a job that are on their way to the store or were lost on the
// way. 0 stands for all jobs.
func (c *Conductor) Uploads(job uint32) ([]*Upload, error) {
	if job == 0 {
		return c.uploads.loadAll(uploadSuffix)
	}
	up, err := c.uploads.load(job)
	if up == nil {
		return nil, err
	}
	return []*Upload{up}, nil
}
