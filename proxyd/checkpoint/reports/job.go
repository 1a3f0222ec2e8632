// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
)

// Subject is a job of this node, as reports need it.
type Subject interface {
	// Services returns the writers of this node's reports.
	Services() Services
	// SlurmName returns the job's name for Slurm's commands.
	SlurmName() string
	Log() *slog.Logger
	// OpenScript returns the batch script; nil if this node does not lead the job, or does not have its batch script.
	OpenScript(ctx context.Context) (*Script, error)
}

// Services write the reports of a node.
type Services struct {
	Comments Comments
	Timeline *records.Timeline
	Meter    Meter
	// StartBackground runs f in a goroutine. ctx of f ends with the daemon.
	StartBackground func(f func(ctx context.Context))
}

// Job tells people what happens to a job. All methods may be called concurrently.
type Job struct {
	id      uint32
	subject Subject

	comment sync.Mutex // held while the comment is read and written

	mu               sync.Mutex
	reportedObstacle bool            // the job's log has a line about an obstacle
	unobstructed     bool            // the comment is known to name no obstacle
	startLine        string          // for the job's log, when the batch script starts; "": none
	lastEvent        <-chan struct{} // closed when the newest event is in the time line, or was refused; nil: there was no event
}

// Init sets the job. Call Init before anything else.
func (j *Job) Init(id uint32, subject Subject) { j.id, j.subject = id, subject }

// SetComment writes into the job's comment in the background.
func (j *Job) SetComment(text string) {
	j.subject.Services().StartBackground(func(ctx context.Context) { j.SetCommentNow(context.WithoutCancel(ctx), text) })
}

// ReplaceCheckpointComment writes into the job's comment, in the background, if one of the job's comments names a checkpoint.
// Else it is EndWait.
func (j *Job) ReplaceCheckpointComment(text string) {
	j.subject.Services().StartBackground(func(ctx context.Context) {
		ctx = context.WithoutCancel(ctx)
		n, err := j.subject.Services().Comments.FindCheckpoint(ctx, j.subject.SlurmName())
		if err != nil || n > 0 {
			j.SetCommentNow(ctx, text)
		} else {
			j.endWaitNow(ctx)
		}
	})
}

// EndWait removes, in the background, our part of the job's comment if it says that the job is held, or waits for the
// shared folder: the run has begun, and does not begin with a restore, which has a comment of its own.
func (j *Job) EndWait() {
	j.subject.Services().StartBackground(func(ctx context.Context) { j.endWaitNow(context.WithoutCancel(ctx)) })
}

func (j *Job) endWaitNow(ctx context.Context) {
	j.comment.Lock()
	defer j.comment.Unlock()
	if err := j.subject.Services().Comments.EndWait(ctx, j.subject.SlurmName()); err != nil {
		j.subject.Log().Info("remove a wait from the job's comment", "error", err)
	}
}

// SetCommentNow writes into the job's comment. An error is logged.
func (j *Job) SetCommentNow(ctx context.Context, text string) {
	text = j.trimJobPrefix(text)
	j.comment.Lock()
	defer j.comment.Unlock()
	if err := j.subject.Services().Comments.Write(ctx, j.subject.SlurmName(), text); err != nil {
		j.subject.Log().Info("write the job's comment", "text", text, "error", err)
	}
}

// SetObstacle has the job's comment name the obstacle to a capture, beside the rest of the comment; "": there is none.
// An error is logged.
func (j *Job) SetObstacle(ctx context.Context, text string) {
	j.mu.Lock()
	known := j.unobstructed
	j.mu.Unlock()
	if text == "" && known {
		return
	}
	j.comment.Lock()
	defer j.comment.Unlock()
	err := j.subject.Services().Comments.WriteObstacle(ctx, j.subject.SlurmName(), j.trimJobPrefix(text))
	if err != nil {
		j.subject.Log().Info("write the job's comment", "obstacle", text, "error", err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.unobstructed = text == "" && err == nil
}

// trimJobPrefix removes the job's own number from an error's text: the number stands beside the
// text anyway.
func (j *Job) trimJobPrefix(text string) string {
	return strings.Replace(text, fmt.Sprintf("job %d: ", j.id), "", 1)
}

// AddEvent reports an event to the Meter, and writes the event into the job's time line in the background, behind the events
// that were added before.
func (j *Job) AddEvent(what string, where []string, text string) {
	j.WriteEvent(records.Event{What: what, Where: JoinNames(where), Text: text})
}

// WriteEvent is AddEvent for an event that has fields for tools. It sets the time.
func (j *Job) WriteEvent(e records.Event) {
	services := j.subject.Services()
	services.Meter.Event(e.What)
	e.Text = j.trimJobPrefix(e.Text)
	if len(e.Text) > records.MaxEventText {
		e.Text = strings.ToValidUTF8(e.Text[:records.MaxEventText], "") + "…"
	}
	written := make(chan struct{})
	j.mu.Lock()
	before := j.lastEvent
	j.lastEvent = written
	e.At = time.Now().Truncate(time.Millisecond) // not rounded: a run that ends at once would have begun after its end
	j.mu.Unlock()
	services.StartBackground(func(context.Context) {
		defer close(written)
		if before != nil {
			<-before
		}
		if err := services.Timeline.Write(j.id, e); err != nil {
			j.subject.Log().Info("write the time line", "event", e.What, "error", err)
		}
	})
}

// JoinNames returns the names of nodes or programs as reports have them.
func JoinNames(names []string) string { return strings.Join(names, ",") }

// WriteLogLine writes a line into the log of the job, on the node of the batch script: to the
// standard error of the script. Only the leader writes lines, so a line is there once.
func (j *Job) WriteLogLine(ctx context.Context, text string) {
	script, err := j.subject.OpenScript(ctx)
	if err == nil && script == nil {
		return
	}
	if err == nil {
		line := strings.ReplaceAll(j.trimJobPrefix(text), "\n", "; ") // joined errors have several lines
		err = script.appendToStderr(ctx, commentPrefix+line)
	}
	if err != nil {
		j.subject.Log().Info("write into the job's log", "error", err)
	}
}

// SetStartLine sets the line for the user about the run that begins.
func (j *Job) SetStartLine(text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.startLine = text
}

// StartLine returns the line that SetStartLine has set, if it is not written yet.
func (j *Job) StartLine() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.startLine
}

// WriteStartLine writes the start line into the job's log in the background, once: the batch script has started.
func (j *Job) WriteStartLine() {
	j.mu.Lock()
	line := j.startLine
	j.startLine = ""
	j.mu.Unlock()
	if line != "" {
		j.subject.Services().StartBackground(func(ctx context.Context) { j.WriteLogLine(ctx, line) })
	}
}

// TellObstacle writes into the job's log, once a run, that something in the job keeps it from being
// captured.
func (j *Job) TellObstacle(ctx context.Context, obstacle string) {
	j.mu.Lock()
	reported := j.reportedObstacle
	j.reportedObstacle = true
	j.mu.Unlock()
	if !reported {
		j.WriteLogLine(ctx, fmt.Sprintf("no checkpoint can be made: %s; singctl show %d says more", obstacle, j.id))
	}
}
