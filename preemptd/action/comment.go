// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"context"
	"fmt"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/preemptd/journal"
	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// A job's comment is the user's words, ours, and proxyd's, in this order: proxyd replaces
// what follows its own mark and keeps what stands before it.
const (
	ours  = "preemptd: "
	their = "singularity: "
)

// maxComment is what of ours is said at most.
const maxComment = 500

// comment puts our words in their place.
func comment(had, text string) string {
	rest := ""
	if i := strings.Index(had, their); i >= 0 {
		had, rest = had[:i], had[i:]
	}
	if i := strings.Index(had, ours); i >= 0 {
		had = had[:i]
	}
	parts := []string{}
	for _, part := range []string{strings.TrimRight(had, "; "), ours + clip(text, maxComment), rest} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, "; ")
}

// clip makes a text fit for a comment or a reason: one line, without quotes.
func clip(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '"' || r == '\'' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len("…")], "") + "…"
}

func lookSaid(text func(*work) string) func(context.Context, *work) verdict {
	return func(_ context.Context, w *work) verdict {
		if w.job.State.Finished() || w.job.Comment == comment(w.job.Comment, text(w)) {
			return verdict{is: done}
		}
		return verdict{is: todo}
	}
}

func say(text func(*work) string) func(context.Context, *work) error {
	return func(ctx context.Context, w *work) error {
		said := comment(w.job.Comment, text(w))
		return w.r.Slurm.Update(ctx, w.ref(), slurmrest.JobUpdate{Comment: &said})
	}
}

// asked says by whom and why, and where to read more.
func (w *work) asked() string {
	return fmt.Sprintf("by %s: %s (action %d)", w.a.Who, w.a.Why, w.a.ID)
}

func doingText(w *work) string { return "under way: " + w.a.Kind + " " + w.asked() }

func doneText(w *work) string {
	text := w.kind.past
	switch {
	case len(w.args.Nodes) > 0:
		text += " to " + strings.Join(w.args.Nodes, ",")
	case len(w.args.Avoid) > 0:
		text += " away from " + strings.Join(w.args.Avoid, ",")
	}
	if w.args.QOS != "" {
		text += " with QOS " + w.args.QOS
	}
	text += " " + w.asked()
	if w.memo.Checkpoint != "" {
		text += "; checkpoint " + w.memo.Checkpoint
	}
	if w.args.Hold {
		text += fmt.Sprintf("; held until singctl resume %d", w.a.Job)
	}
	return text
}

func undoneText(w *work) string {
	text := "not " + w.kind.past + ": "
	if w.memo.Then == journal.Dropped {
		text = w.a.Kind + " given up: "
	}
	text += w.a.Problem + "; asked " + w.asked()
	if w.memo.Kept {
		text += fmt.Sprintf("; still held: scontrol release %d", w.a.Job)
	}
	return text
}
