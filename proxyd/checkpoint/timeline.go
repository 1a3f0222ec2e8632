// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The time line of a job lies beside its record, from the job's first start to its end. Each node
// writes a file of its own, because appends of two nodes to one file on NFS lose lines.

// Event is a line of a job's time line.
type Event struct {
	At    time.Time `json:"at"`
	What  string    `json:"event"`
	Where string    `json:"where,omitempty"` // nodes
	Text  string    `json:"text,omitempty"`
}

// Kinds of events. Tools read these texts, so the values never change.
const (
	eventStarted      = "started" // anew, or to resume from a checkpoint
	eventCheckpoint   = "checkpoint"
	eventFailed       = "no checkpoint"
	eventFilesUnknown = "files unknown" // not all changes of files could be recorded
	eventStored       = "stored"        // a staged checkpoint is in the store now
	eventLost         = "lost"          // a staged checkpoint will never be in the store
	eventReleased     = "left"          // captured, and its processes are ended
	eventEnded        = "ended"
	eventRestored     = "restored"
	eventHeld         = "held"
	eventRequeued     = "to be run again" // the run has lost a part
	eventRestart      = "begins anew"
)

const (
	maxTimeline  = 256 << 10 // bytes of a node's file; the older half of a full file is dropped
	maxEventText = 400       // bytes of an event's text
)

func (c *Conductor) timelinePath(job uint32, node string) string {
	return filepath.Join(c.records.dir, fmt.Sprintf("%d.%s.events", job, node))
}

func (c *Conductor) timelinePaths(job uint32) []string {
	all, _ := filepath.Glob(c.timelinePath(job, "*")) // The pattern is valid.
	return all
}

// addEvent writes an event into the job's time line in the background.
func (j *job) addEvent(what string, where []string, text string) {
	j.c.Meter.Event(what)
	text = j.trimJobPrefix(text)
	if len(text) > maxEventText {
		text = strings.ToValidUTF8(text[:maxEventText], "") + "…"
	}
	e := Event{time.Now().Round(time.Millisecond), what, joinNames(where), text}
	j.c.startBackground(func(context.Context) {
		if err := j.c.writeEvent(j.id, e); err != nil {
			j.log.Info("write the time line", "event", what, "error", err)
		}
	})
}

// writeEvent writes a line. A job without a record is over and gets no events.
func (c *Conductor) writeEvent(job uint32, e Event) error {
	c.timelineMu.Lock()
	defer c.timelineMu.Unlock()
	if _, err := os.Lstat(c.records.path(job)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	path := c.timelinePath(job, c.Node)
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
	if err := os.WriteFile(path+".new", b, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// readTimeline returns a job's events in order. It skips a line that a crash has cut short.
func (c *Conductor) readTimeline(job uint32) ([]Event, error) {
	var events []Event
	for _, path := range c.timelinePaths(job) {
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

// removeTimeline removes a job's time line, after its record.
func (c *Conductor) removeTimeline(job uint32) (err error) {
	c.timelineMu.Lock()
	defer c.timelineMu.Unlock()
	all, _ := filepath.Glob(c.timelinePath(job, "*") + "*") // with temporary files of trimTimeline
	for _, path := range all {
		if e := os.Remove(path); !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}
