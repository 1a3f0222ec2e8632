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

	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// With a stage, a dump ends on its nodes and the job goes on, or leaves; an upload follows:
//
//	leader                                     every node             whoever restores the job
//	──────                                     ──────────             ────────────────────────
//	dump                                ─────► its share, committed
//	                                           into its own stage
//	commit: its own share, with Meta
//	        SHARED/jobs/JOB.pledge ◄── from here on its base stays, if it is there
//	        it is: JOB.pledge becomes
//	        SHARED/jobs/JOB.upload ◄── from here on the checkpoint counts, and an older one no more
//	resume or release: the nodes are free
//	lease in the store; still wanted?                                 sees JOB.upload, and waits:
//	bring                               ─────► chunks to the store    asks the nodes how far they are
//	still wanted? commit: the manifest
//	JOB.upload goes                                                   restores
//	forget                              ─────► the share goes
//
// Each step may be done twice: a leader that was killed begins again with its record and
// its share, and finds the chunks that are there. What a node has lost, nobody has: the
// record then says so, and the job goes on from the checkpoint before.
//
// Who gives an upload up from outside first says so in the record, then fences the upload's
// lease, then looks whether the manifest is there. The leader looks at the record after it
// has made its lease. So an upload that was given up is either seen to be committed or never
// will be.

// Upload is what all nodes know of a checkpoint that is on its nodes and not in the store
// yet. There is one at most for a job: the newest.
type Upload struct {
	Job          uint32    `json:"job"`
	Number       uint32    `json:"number"`
	Made         time.Time `json:"made"` // tells it from another of this number
	Slurm        string    `json:"slurm"`
	UID          uint32    `json:"uid"`
	Submitted    string    `json:"submitted"`
	Reason       string    `json:"reason"`
	Leader       string    `json:"leader"`
	Nodes        []string  `json:"nodes"`          // that have a share
	Bytes        uint64    `json:"bytes"`          // room that it may need in the store
	Base         uint32    `json:"base,omitempty"` // the checkpoint in the store of which its shares take streams over
	Released     bool      `json:"left"`           // the job has left its nodes
	Lost         string    `json:"lost,omitempty"`
	HoldReported bool      `json:"told,omitempty"` // the job was held because it is lost
}

// isSame says whether two records are of one checkpoint.
func (u *Upload) isSame(o *Upload) bool {
	return o != nil && u.Number == o.Number && u.Made.Equal(o.Made)
}

func (c *Conductor) uploadID(up *Upload) store.ID {
	return store.ID{JobID: c.storeJob(up.Job), Number: up.Number}
}

// uploads keeps the records of uploads beside those of jobs.
type uploads struct {
	dir string
	mu  sync.Mutex // held by those of this node who change what they have read, or delete what no record needs
}

const (
	uploadSuffix = ".upload"
	pledgeSuffix = ".pledge" // the record of one that does not count yet
)

func (u *uploads) path(job uint32, suffix string) string {
	return filepath.Join(u.dir, strconv.FormatUint(uint64(job), 10)+suffix)
}

// load returns nil, nil for a job without an upload.
func (u *uploads) load(job uint32) (*Upload, error) { return u.read(job, uploadSuffix) }

func (u *uploads) read(job uint32, suffix string) (*Upload, error) {
	path := u.path(job, suffix)
	// NFS remembers that a file was not there until its folder is opened.
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

func (u *uploads) save(up *Upload) error { return writeJSON(u.path(up.Job, uploadSuffix), up) }

// removeAll removes a job's record, and a pledge that a daemon has left which was killed. It may be called twice.
func (u *uploads) removeAll(job uint32) error {
	return errors.Join(u.removeRecord(job, uploadSuffix), u.removeRecord(job, pledgeSuffix))
}

func (u *uploads) removeRecord(job uint32, suffix string) error {
	err := os.Remove(u.path(job, suffix))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, syncFolder(u.dir))
}

// pledge saves the record of an upload beside the job's, in whose place it comes when whole has said that nothing of it is missing.
// Caller holds u.mu.
func (u *uploads) pledge(up *Upload, whole func() error) error {
	err := writeJSON(u.path(up.Job, pledgeSuffix), up)
	if err == nil {
		err = whole()
	}
	if err == nil {
		err = os.Rename(u.path(up.Job, pledgeSuffix), u.path(up.Job, uploadSuffix))
	}
	if err != nil {
		return errors.Join(err, u.removeRecord(up.Job, pledgeSuffix))
	}
	return syncFolder(u.dir)
}

// change has f change the record of an upload, if it is still the job's. f returns false
// to have it removed.
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

// loadAll returns the records of all jobs, or their pledges. One that cannot be read is in the error.
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

// errUploadUnwanted ends an upload that somebody has given up, or a newer one has replaced.
var errUploadUnwanted = errors.New("the upload is not wanted any more")

// checkWanted returns nil while a job's record names this upload.
func (c *Conductor) checkWanted(up *Upload) error {
	now, err := c.uploads.load(up.Job)
	if err == nil && (!up.isSame(now) || now.Lost != "") {
		err = errUploadUnwanted
	}
	return err
}

// pledgeUpload makes a checkpoint count that is on all of its nodes.
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

// abandonUpload gives up what a job has on its way: none of its checkpoints is wanted.
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

// replaceUpload ends the upload of a checkpoint that is older than what is in the store now.
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

// Uploads returns what is on its way to the store, and what got lost there, of a job or,
// if it is 0, of all.
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
