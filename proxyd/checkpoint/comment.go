// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
)

// commentPrefix begins the part of a job's comment that proxyd writes. The user's own text stands
// before it.
const commentPrefix = "singularity: "

// commentTimeout is short: a comment is worth no delay.
const commentTimeout = 5 * time.Second

// Beginnings of comments. A "held" comment is not replaced by a "no checkpoint" comment.
const (
	commentHeld         = "held: "
	commentNoCheckpoint = "no checkpoint at "
)

// jobReport tells people what happens to a job: in the comment of the job, and in its time line.
type jobReport struct{ j *job }

// setComment writes into the job's comment in the background.
func (r jobReport) setComment(text string) {
	j := r.j
	j.c.startBackground(func(ctx context.Context) { r.setCommentNow(context.WithoutCancel(ctx), text) })
}

// trimJobPrefix removes the job's own number from an error's text: the number stands beside the
// text anyway.
func (r jobReport) trimJobPrefix(text string) string {
	j := r.j
	return strings.Replace(text, fmt.Sprintf("job %d: ", j.id), "", 1)
}

func (r jobReport) setCommentNow(ctx context.Context, text string) {
	j := r.j
	text = r.trimJobPrefix(text)
	if err := j.c.writeComment(ctx, j.slurmName(), text); err != nil {
		j.log.Info("write the job's comment", "text", text, "error", err)
	}
}

// addEvent writes an event into the job's time line in the background.
func (r jobReport) addEvent(what string, where []string, text string) {
	j := r.j
	j.c.Meter.Event(what)
	text = r.trimJobPrefix(text)
	if len(text) > records.MaxEventText {
		text = strings.ToValidUTF8(text[:records.MaxEventText], "") + "…"
	}
	e := records.Event{At: time.Now().Round(time.Millisecond), What: what, Where: joinNames(where), Text: text}
	j.c.startBackground(func(context.Context) {
		if err := j.c.timeline.Write(j.id, e); err != nil {
			j.log.Info("write the time line", "event", what, "error", err)
		}
	})
}

// writeComment replaces proxyd's part of a job's comment. Slurm refuses that for a job that has
// ended.
func (c *Conductor) writeComment(ctx context.Context, job, text string) error {
	ctx, cancel := context.WithTimeout(ctx, commentTimeout)
	defer cancel()
	had, err := c.Slurm.Said(ctx, job)
	if err != nil || strings.Contains(had, commentPrefix+commentHeld) && strings.HasPrefix(text, commentNoCheckpoint) {
		return err
	}
	return errors.Join(c.Slurm.Comment(ctx, job, composeComment(had, text)), c.writeAdminComment(ctx, job, text))
}

// writeAdminComment writes the text where sacct shows it after the job has gone: Slurm keeps the
// comment itself only where a site has told it to. Sites keep data of programs in administrators'
// comments, so one that is not proxyd's is left alone.
func (c *Conductor) writeAdminComment(ctx context.Context, job, text string) error {
	had, err := c.Slurm.AdminComment(ctx, job)
	if err != nil || had != "" && !strings.HasPrefix(had, commentPrefix) {
		return err
	}
	return c.Slurm.SetAdminComment(ctx, job, composeComment("", text))
}

// maxComment is far below the limit of any Slurm.
const maxComment = 800

// composeComment returns a comment with text in place of proxyd's part.
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
