// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/durable"
)

// The time line of a job lies beside its record, from the job's first start to its end. Each node
// writes a file of its own, because appends of two nodes to one file on NFS lose lines.

// Event is a line of a job's time line.
type Event struct {
	At    time.Time `json:"at"`
	What  string    `json:"event"`
	Where string    `json:"where,omitempty"` // nodes
	Text  string    `json:"text,omitempty"`  // for people; tools have the fields

	Run        int           `json:"run,omitempty"`        // of EventStarted, counted from 1
	Checkpoint uint32        `json:"checkpoint,omitempty"` // of EventStarted: from which the run resumes, 0: anew; of EventCheckpoint and EventRestored
	Took       time.Duration `json:"took,omitempty"`       // of EventCheckpoint
	AfterEnd   bool          `json:"after_end,omitempty"`  // of EventStarted: the run before had ended by itself, and this run begins anew for that
}

// Kinds of events. Tools read these texts, so the values never change.
const (
	EventStarted      = "started" // anew, or to resume from a checkpoint
	EventCheckpoint   = "checkpoint"
	EventFailed       = "no checkpoint"
	EventFilesUnknown = "files unknown" // not all changes of files could be recorded
	EventStored       = "stored"        // a staged checkpoint is in the store now
	EventLost         = "lost"          // a staged checkpoint will never be in the store
	EventReleased     = "left"          // captured, and its processes are ended
	EventEnded        = "ended"
	EventRestored     = "restored"
	EventReset        = "reset"     // connections to outside of the job, at a restore
	EventReachable    = "reachable" // ports for clients outside, by the relay
	EventHeld         = "held"
	EventRequeued     = "to be run again" // the run has lost a part
	EventCutShort     = "cut short"       // the run ended before the job was restored, or began
	EventNodeLost     = "node failed"     // some time before this event
	EventLaunchFailed = "launch failed"   // Slurm held the job for that, and the hold is released; or Slurm ended the job, which is requeued
	EventRestart      = "begins anew"
	EventGPUs         = "GPUs" // another job lends it GPUs, or has ended
)

// MakeStartEvent returns the EventStarted of a run, which is counted from 1; number is the checkpoint from which it resumes, 0:
// none.
func MakeStartEvent(run int, nodes []string, number uint32) Event {
	e := Event{What: EventStarted, Where: strings.Join(nodes, ","), Run: run, Checkpoint: number}
	switch {
	case number > 0:
		e.Text = fmt.Sprintf("run %d, to resume from checkpoint %d", run, number)
	case run > 1:
		e.Text = fmt.Sprintf("run %d, anew", run)
	}
	return e
}

// MakeCheckpointEvent returns the EventCheckpoint of a checkpoint, why it was made and how long that took.
func MakeCheckpointEvent(number uint32, nodes []string, reason string, took time.Duration) Event {
	took = took.Round(time.Millisecond)
	return Event{
		What: EventCheckpoint, Where: strings.Join(nodes, ","), Checkpoint: number, Took: took,
		Text: fmt.Sprintf("%d (%s), in %s", number, reason, took),
	}
}

// MakeRestoreEvent returns the EventRestored of a run on nodes; lostWork is the end of its text.
func MakeRestoreEvent(number uint32, nodes []string, lostWork string) Event {
	return Event{
		What: EventRestored, Where: strings.Join(nodes, ","), Checkpoint: number,
		Text: fmt.Sprintf("from checkpoint %d", number) + lostWork,
	}
}

// MaxEventText is how many bytes of an event's text are kept.
const MaxEventText = 400

const maxTimeline = 256 << 10 // bytes of a node's file; the older half of a full file is dropped

// Timeline writes the time lines of this node, and reads those of all nodes. All methods may be called concurrently.
type Timeline struct {
	folder Folder
	node   string

	mu sync.Mutex // held while a file is written
}

// NewTimeline returns the time lines of a node in the folder of jobs.
func NewTimeline(folder Folder, node string) *Timeline { return &Timeline{folder: folder, node: node} }

// Path is the path of the time line that a node writes; node may be a pattern.
func (t *Timeline) Path(job uint32, node string) string {
	return filepath.Join(t.folder.Dir, fmt.Sprintf("%d.%s.events", job, node))
}

func (t *Timeline) eventPaths(job uint32) []string {
	all, _ := filepath.Glob(t.Path(job, "*")) // The pattern is valid.
	return all
}

// Write writes a line. A job without a record is over and gets no events.
func (t *Timeline) Write(job uint32, e Event) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, err := os.Lstat(t.folder.Path(job)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	path := t.Path(job, t.node)
	if err := trimTimeline(path); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}

// trimTimeline drops the older half of a full file.
func trimTimeline(path string) error {
	st, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && st.Size() < maxTimeline {
		return nil
	}
	if err != nil {
		return err
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	_, b, _ = bytes.Cut(b[len(b)/2:], []byte("\n"))
	return durable.ReplaceUnsynced(path, b)
}

// Read returns a job's events in order. It skips a line that a crash has cut short.
func (t *Timeline) Read(job uint32) ([]Event, error) {
	var events []Event
	for _, path := range t.eventPaths(job) {
		b, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for line := range bytes.Lines(b) {
			var e Event
			if json.Unmarshal(line, &e) == nil {
				events = append(events, e)
			}
		}
	}
	slices.SortStableFunc(events, func(a, b Event) int { return a.At.Compare(b.At) })
	return events, nil
}

// Remove removes a job's time line, after its record.
func (t *Timeline) Remove(job uint32) (err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all, _ := filepath.Glob(t.Path(job, "*") + "*") // with temporary files of trimTimeline
	for _, path := range all {
		if e := os.Remove(path); !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}
