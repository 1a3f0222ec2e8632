// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// ours begins our part of a job's comment; what the user wrote stands before it.
const ours = "singularity: "

// sayDeadline is short: a comment is worth no delay.
const sayDeadline = 5 * time.Second

// Beginnings of what is said. Why a job is held matters more than that its end was no
// checkpoint.
const (
	sayHeld = "held: "
	sayNone = "no checkpoint at "
)

// say tells the job's user, in squeue's comment. It does not wait.
func (j *job) say(text string) {
	j.c.spawn(func(ctx context.Context) { j.sayNow(context.WithoutCancel(ctx), text) })
}

// unnamed takes the job's own number off an error: it stands where everybody knows it.
func (j *job) unnamed(text string) string {
	return strings.Replace(text, fmt.Sprintf("job %d: ", j.id), "", 1)
}

func (j *job) sayNow(ctx context.Context, text string) {
	text = j.unnamed(text)
	if err := j.c.tell(ctx, j.slurm(), text); err != nil {
		j.log.Info("comment", "text", text, "error", err)
	}
}

// tell puts our words into a job's comment. A job that Slurm has ended takes none.
func (c *Conductor) tell(ctx context.Context, job, text string) error {
	ctx, cancel := context.WithTimeout(ctx, sayDeadline)
	defer cancel()
	had, err := c.Slurm.Said(ctx, job)
	if err != nil || strings.Contains(had, ours+sayHeld) && strings.HasPrefix(text, sayNone) {
		return err
	}
	return c.Slurm.Comment(ctx, job, comment(had, text))
}

// maxComment is far below what any Slurm takes.
const maxComment = 800

// comment puts our words behind the user's.
func comment(had, text string) string {
	if i := strings.Index(had, ours); i >= 0 {
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
	return had + ours + text
}

func join(names []string) string { return strings.Join(names, ",") }

// periodic starts the checkpoints that nobody asks for.
func (j *job) periodic() {
	j.mu.Lock()
	defer j.mu.Unlock()
	every := j.rec.Options.Interval
	if every == 0 {
		every = j.c.Interval
	}
	if every == 0 || j.timer != nil {
		return
	}
	ctx, cancel := context.WithCancel(j.c.life)
	j.timer = cancel
	j.c.all.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if _, err := j.c.requestCheckpoint(ctx, j, checkpointRequest{After: passOn, Reason: "periodic"}); err != nil && ctx.Err() == nil {
				j.log.Warn("periodic checkpoint", "error", err)
				j.say(fmt.Sprintf(sayNone+"%s: %v", time.Now().Format(time.TimeOnly), err))
			}
		}
	})
}
