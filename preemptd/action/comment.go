// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/singularity-slurm/singularity-slurm/preemptd/jobrequest"
	"github.com/singularity-slurm/singularity-slurm/preemptd/journal"
	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// A job's comment is the user's words, ours, and proxyd's, in this order: proxyd replaces the text behind its own
// mark and keeps the text before the mark.
const (
	ourMark    = "preemptd: "
	proxydMark = "singularity: "
)

// maxComment is the greatest length of our words.
const maxComment = 500

// withOurComment puts our words in their place.
func withOurComment(had, text string) string {
	rest := ""
	if i := strings.Index(had, proxydMark); i >= 0 {
		had, rest = had[:i], had[i:]
	}
	if i := strings.Index(had, ourMark); i >= 0 {
		had = had[:i]
	}
	parts := []string{}
	for _, part := range []string{strings.TrimRight(had, "; "), ourMark + ClipText(text, maxComment), rest} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, "; ")
}

// ClipText makes a text fit for a comment, a reason or an event: a single line, without quotes.
func ClipText(text string, most int) string {
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

func checkComment(text func(*actionRun) string) func(context.Context, *actionRun) finding {
	return func(_ context.Context, w *actionRun) finding {
		if w.job.State.Finished() || w.commentSays(text) {
			return finding{outcome: done}
		}
		return finding{outcome: todo}
	}
}

func writeComment(text func(*actionRun) string) func(context.Context, *actionRun) error {
	return func(ctx context.Context, w *actionRun) error {
		said := withOurComment(w.job.Comment, text(w))
		return w.r.Slurm.Update(ctx, w.jobRef(), slurmrest.JobUpdate{Comment: &said})
	}
}

// requestedBy names the requester and the reason, and where to read more.
func (w *actionRun) requestedBy() string {
	return "by " + w.requesterAndReason() + fmt.Sprintf(" (action %d)", w.a.ID)
}

// requesterAndReason names the requester of the action, with the reason if the requester gave one.
func (w *actionRun) requesterAndReason() string {
	if w.a.Why == journal.NoReason {
		return w.a.Who
	}
	return w.a.Who + ": " + w.a.Why
}

func doingText(w *actionRun) string { return "under way: " + w.a.Kind + " " + w.requestedBy() }

// releasedText is the comment from the release of the action's hold until the job has started.
func releasedText(w *actionRun) string { return "released; " + doingText(w) }

// commentSays reports whether our words in the job's comment are text.
func (w *actionRun) commentSays(text func(*actionRun) string) bool {
	return w.job.Comment == withOurComment(w.job.Comment, text(w))
}

// nodesText says to which nodes an action brings a job, or from which ones; "": to any.
func nodesText(args Args) string {
	switch {
	case len(args.Nodes) > 0:
		return " to " + strings.Join(args.Nodes, ",")
	case len(args.Avoid) > 0:
		return " away from " + strings.Join(args.Avoid, ",")
	}
	return ""
}

// TargetText returns the nodes and the size that a job gets by an action with these arguments, to follow the action's
// kind: "to 1 node", "away from n1"; "" if the arguments name neither.
func TargetText(encoded json.RawMessage) string {
	var args Args
	if json.Unmarshal(encoded, &args) != nil { // of another release
		return ""
	}
	text := nodesText(args)
	var sizes []string
	if args.NodeCount != 0 {
		sizes = append(sizes, jobrequest.CountOf(args.NodeCount, "node"))
	}
	if args.GPUs != 0 {
		sizes = append(sizes, jobrequest.CountOf(args.GPUs, "GPU")+" on each node")
	}
	switch {
	case len(sizes) > 0 && text == "":
		text = " to " + strings.Join(sizes, ", ")
	case len(sizes) > 0:
		text += ", " + strings.Join(sizes, ", ")
	}
	if args.QOS != "" {
		text += " with QOS " + args.QOS
	}
	return strings.TrimPrefix(text, " ")
}

func doneText(w *actionRun) string {
	text := w.kind.participle + nodesText(w.args)
	if w.memo.Lent {
		text += " in place, to " + jobrequest.CountOf(w.args.GPUs, "GPU")
	}
	if w.args.QOS != "" {
		text += " with QOS " + w.args.QOS
	}
	text += " " + w.requestedBy()
	if w.memo.Checkpoint != "" {
		text += "; checkpoint " + w.memo.Checkpoint
	}
	if w.args.Hold || w.staysHeld() {
		text += w.heldText()
	}
	return text
}

// staysHeld reports whether the job was held before the action, and is held still.
func (w *actionRun) staysHeld() bool {
	return w.memo.WasHeld && !w.kind.releasesHold && isHeld(&w.job)
}

func (w *actionRun) heldText() string { return fmt.Sprintf("; held until singctl resume %d", w.a.Job) }

// undoneText stays in the job's comment until the next action on the job, and so names the time of its action.
func undoneText(w *actionRun) string {
	text := "not " + w.kind.participle + ": "
	if w.memo.EndsAs == journal.Dropped {
		text = w.a.Kind + " given up: "
	}
	text += w.a.Problem + "; asked at " + w.a.Created.Local().Format(time.DateTime) + " " + w.requestedBy()
	switch {
	case w.memo.StaysHeld:
		text += fmt.Sprintf("; still held: scontrol release %d", w.a.Job)
	case w.staysHeld():
		text += w.heldText()
	}
	return text
}

// endedHold matches the end of our words of which a hold is told: "held until singctl resume 7", or "still held: scontrol
// release 7".
var endedHold = regexp.MustCompile(`; (?:held until singctl resume|still held: scontrol release) [0-9]+$`)

// WithoutEndedHold returns a job's comment without the hold that an action of ours has left, of which it tells; isStale is
// false if the comment tells of none.
func WithoutEndedHold(comment string) (now string, isStale bool) {
	ours, rest := comment, ""
	if i := strings.Index(comment, proxydMark); i >= 0 {
		ours, rest = comment[:i], comment[i:]
	}
	_, text, isOurs := strings.Cut(strings.TrimRight(ours, "; "), ourMark)
	if !isOurs || !endedHold.MatchString(text) {
		return comment, false
	}
	return withOurComment(ours+rest, endedHold.ReplaceAllString(text, "")), true
}

// The forms of a comment that an action wrote: under way, or ended with a hold.
var (
	commentUnderWay = regexp.MustCompile(`preemptd: (?:released; )?under way: ([a-z]+) .*\(action ([0-9]{1,18})\)`)
	commentHeld     = regexp.MustCompile(`preemptd: ([a-z]+) .*\(action ([0-9]{1,18})\).*; held until singctl resume`)
)

// WithoutRecord returns the new comment of a job if the journal does not have the action by which its comment was
// written, and the action's number; 0 if the comment is of no action that matters still. The comment is not trusted
// for anything else: users can write comments.
func WithoutRecord(j *slurmrest.Job) (id int64, comment string) {
	form, text := commentUnderWay, "%s broken off: the journal does not have it any more (action %s)"
	found := form.FindStringSubmatch(j.Comment)
	if found == nil {
		text = "%s, and the journal does not have it any more (action %s)"
		if found = commentHeld.FindStringSubmatch(j.Comment); found == nil || !j.Held {
			return 0, ""
		}
	}
	id, err := strconv.ParseInt(found[2], 10, 64)
	if err != nil {
		return 0, ""
	}
	text = fmt.Sprintf(text, found[1], found[2])
	if j.Held {
		text += fmt.Sprintf("; still held: scontrol release %d", j.ID)
	}
	return id, withOurComment(j.Comment, text)
}

// sizeInPlace matches the beginning of our words about a size that a job was given in place.
var sizeInPlace = regexp.MustCompile(regexp.QuoteMeta(ourMark) + resize.participle + `(?: (?:to|away from) \S+)? in place, to ([0-9]{1,6}) GPUs? by `)

// SizeInPlace returns the GPUs on each node that a job has in place, by its comment; 0 if the comment tells of none.
func SizeInPlace(comment string) int64 {
	found := sizeInPlace.FindStringSubmatch(comment)
	if found == nil {
		return 0
	}
	gpus, _ := strconv.ParseInt(found[1], 10, 64) // digits only, and few
	return gpus
}

// WithoutSizeInPlace returns a job's comment of which SizeInPlace has a size, when the job does not have that size any more.
func WithoutSizeInPlace(comment string) string {
	ours, rest := comment, ""
	if i := strings.Index(comment, proxydMark); i >= 0 {
		ours, rest = comment[:i], comment[i:]
	}
	_, text, _ := strings.Cut(strings.TrimRight(ours, "; "), ourMark)
	return withOurComment(ours+rest, "was "+ClipText(text, maxComment-len("was "+leasesChanged))+leasesChanged)
}

const leasesChanged = "; its leases have changed since"
