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
	"strings"
	"time"
)

// PastJob is the file about a job that is over: its time line, with the user that may read it. The file lies in a folder
// of its own, because the folder of jobs is read often.
type PastJob struct {
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

// keepPlain is how long the file of a job is kept that has no events except its start and its end: Slurm knows as much.
// There are many such jobs, and each is a file.
const keepPlain = 24 * time.Hour

// plainEnding ends the names of the files of such jobs.
const plainEnding = ".plain.json"

func (t *Timeline) plainPath(job uint32) string {
	return filepath.Join(t.pastFolder(), fmt.Sprint(job)+plainEnding)
}

// KeepPast keeps the time line of a job that is over, before its record is removed. A second call, after Remove, has no
// effect.
func (t *Timeline) KeepPast(rec *Record) error {
	events, err := t.Read(rec.Job)
	if err != nil || len(events) == 0 {
		return err
	}
	path, other := t.pastPath(rec.Job), t.plainPath(rec.Job)
	if isPlain(events) {
		path, other = other, path
	}
	if err := os.MkdirAll(t.pastFolder(), 0o700); err != nil {
		return err
	}
	events = events[max(len(events)-maxPastEvents, 0):]
	err = WriteJSON(path, PastJob{
		Job: rec.Job, UID: rec.UID, Events: events, NextBeginsAnew: rec.BeginAnew, LastNumber: rec.LastNumber,
	})
	if err != nil {
		return err
	}
	// A job that had the number before may have left this file. When two nodes end the job at the same time, the other
	// node may have removed the time line by now: so the new file is written before the old file is removed, and a file is
	// always there.
	return removeIfThere(other)
}

// isPlain tells whether a job was started and ended, and no more.
func isPlain(events []Event) bool {
	starts := 0
	for _, e := range events {
		switch e.What {
		case EventStarted:
			starts++
		case EventEnded:
		default:
			return false
		}
	}
	return starts < 2
}

// ReadPast returns the file that KeepPast wrote about a job, or nil.
func (t *Timeline) ReadPast(job uint32) (*PastJob, error) {
	for _, path := range []string{t.pastPath(job), t.plainPath(job)} {
		b, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		past := &PastJob{}
		if err := json.Unmarshal(b, past); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if past.Job != job {
			return nil, fmt.Errorf("%s: the time line of job %d", path, past.Job)
		}
		return past, nil
	}
	return nil, nil
}

// ForgetJob removes the file that KeepPast wrote about a job that had this number before.
func (t *Timeline) ForgetJob(job uint32) error {
	return errors.Join(removeIfThere(t.pastPath(job)), removeIfThere(t.plainPath(job)))
}

// ForgetPast removes the files of KeepPast that are older than keep, and files of plain jobs that are older than
// keepPlain.
func (t *Timeline) ForgetPast(now time.Time, keep time.Duration) error {
	entries, err := os.ReadDir(t.pastFolder())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		before := now.Add(-keep)
		if strings.HasSuffix(e.Name(), plainEnding) {
			before = now.Add(-min(keep, keepPlain))
		}
		st, statErr := e.Info()
		// A temporary file of a daemon that died is old, too, after a while.
		if statErr != nil || !st.ModTime().Before(before) {
			continue
		}
		err = errors.Join(err, removeIfThere(filepath.Join(t.pastFolder(), e.Name())))
	}
	return err
}
