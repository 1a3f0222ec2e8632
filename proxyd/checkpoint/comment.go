// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// commentPrefix begins our part of a job's comment; what the user wrote stands before it.
const commentPrefix = "singularity: "

// commentTimeout is short: a comment is worth no delay.
const commentTimeout = 5 * time.Second

// Beginnings of what is said. Why a job is held matters more than that its end was no
// checkpoint.
const (
	commentHeld         = "held: "
	commentNoCheckpoint = "no checkpoint at "
)

// setComment tells the job's user, in squeue's comment. It does not wait.
func (j *job) setComment(text string) {
	j.c.startBackground(func(ctx context.Context) { j.setCommentNow(context.WithoutCancel(ctx), text) })
}

// trimJobPrefix takes the job's own number off an error: it stands where everybody knows it.
func (j *job) trimJobPrefix(text string) string {
	return strings.Replace(text, fmt.Sprintf("job %d: ", j.id), "", 1)
}

func (j *job) setCommentNow(ctx context.Context, text string) {
	text = j.trimJobPrefix(text)
	if err := j.c.writeComment(ctx, j.slurmName(), text); err != nil {
		j.log.Info("comment", "text", text, "error", err)
	}
}

// writeComment puts our words into a job's comment. A job that Slurm has ended takes none.
func (c *Conductor) writeComment(ctx context.Context, job, text string) error {
	ctx, cancel := context.WithTimeout(ctx, commentTimeout)
	defer cancel()
	had, err := c.Slurm.Said(ctx, job)
	if err != nil || strings.Contains(had, commentPrefix+commentHeld) && strings.HasPrefix(text, commentNoCheckpoint) {
		return err
	}
	return c.Slurm.Comment(ctx, job, composeComment(had, text))
}

// maxComment is far below what any Slurm takes.
const maxComment = 800

// composeComment puts our words behind the user's.
func composeComment(had, text string) string {
	if i := strings.Index(had, commentPrefix); i >= 0 {
		had = strings.TrimRight(had[:i], "; ")
	}
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == '"' || r == '\'' {
			return ' '
		}
		return r
	}, text)
	if len(text) > maxComment {
		text = strings.ToValidUTF8(text[:maxComment], "") + "…"
	}
	if had != "" {
		had += "; "
	}
	return had + commentPrefix + text
}

func joinNames(names []string) string { return strings.Join(names, ",") }

// startPeriodic starts the checkpoints that nobody asks for.
func (j *job) startPeriodic() {
	j.mu.Lock()
	defer j.mu.Unlock()
	every := j.rec.Options.Interval
	if every == 0 {
		every = j.c.Interval
	}
	if every == 0 || j.stopPeriodic != nil {
		return
	}
	ctx, cancel := context.WithCancel(j.c.daemonCtx)
	j.stopPeriodic = cancel
	j.c.background.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if _, err := j.c.requestCheckpoint(ctx, j, checkpointRequest{After: forwardSignal, Reason: "periodic"}); err != nil && ctx.Err() == nil {
				j.log.Warn("periodic checkpoint", "error", err)
				j.setComment(fmt.Sprintf(commentNoCheckpoint+"%s: %v", time.Now().Format(time.TimeOnly), err))
			}
		}
	})
}
