// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Past is what is kept of a job that is over: its time line, with the user that may read it. It lies
// in a folder of its own, because the folder of jobs is read often.
type Past struct {
	Job    uint32  `json:"job"`
	UID    uint32  `json:"uid"`
	Events []Event `json:"events"`
	// NextBeginsAnew is the record's BeginAnew: a person can have Slurm run the job again as long as Slurm knows the job.
	NextBeginsAnew bool   `json:"nextBeginsAnew,omitempty"`
	LastNumber     uint32 `json:"last,omitempty"` // highest number given to a checkpoint
}

// maxPastEvents bounds the file of a job that ran for months.
const maxPastEvents = 2000

func (t *Timeline) pastFolder() string { return filepath.Join(t.folder.Dir, "past") }

func (t *Timeline) pastPath(job uint32) string {
	return filepath.Join(t.pastFolder(), fmt.Sprintf("%d.json", job))
}

// KeepPast keeps the time line of a job that is over, before its record is removed. A job of which
// no node tells more than its start and its end is not kept: Slurm knows as much. A second call,
// after Remove, changes nothing.
func (t *Timeline) KeepPast(rec *Record) error {
	events, err := t.Read(rec.Job)
	if err != nil || len(events) == 0 {
		return err
	}
	if !worthKeeping(events) {
		return t.ForgetJob(rec.Job)
	}
	if err := os.MkdirAll(t.pastFolder(), 0o700); err != nil {
		return err
	}
	events = events[max(len(events)-maxPastEvents, 0):]
	return WriteJSON(t.pastPath(rec.Job), Past{
		Job: rec.Job, UID: rec.UID, Events: events, NextBeginsAnew: rec.BeginAnew, LastNumber: rec.LastNumber,
	})
}

func worthKeeping(events []Event) bool {
	for _, e := range events {
		if e.What != EventStarted && e.What != EventEnded {
			return true
		}
	}
	return false
}

// ReadPast returns what KeepPast kept of a job, or nil.
func (t *Timeline) ReadPast(job uint32) (*Past, error) {
	b, err := os.ReadFile(t.pastPath(job))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	past := &Past{}
	if err := json.Unmarshal(b, past); err != nil {
		return nil, fmt.Errorf("%s: %w", t.pastPath(job), err)
	}
	if past.Job != job {
		return nil, fmt.Errorf("%s: the time line of job %d", t.pastPath(job), past.Job)
	}
	return past, nil
}

// ForgetJob removes what KeepPast kept of a job that had this number before.
func (t *Timeline) ForgetJob(job uint32) error { return removeIfThere(t.pastPath(job)) }

// ForgetPast removes what KeepPast kept before a time.
func (t *Timeline) ForgetPast(before time.Time) error {
	entries, err := os.ReadDir(t.pastFolder())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		st, statErr := e.Info()
		// A temporary file of a daemon that died is old, too, after a while.
		if statErr != nil || !st.ModTime().Before(before) {
			continue
		}
		err = errors.Join(err, removeIfThere(filepath.Join(t.pastFolder(), e.Name())))
	}
	return err
}
