// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
)

// commentPrefix begins the part of a job's comment that proxyd writes. The user's own text stands
// before that part.
const commentPrefix = "singularity: "

// commentTimeout is short: a comment is worth no delay.
const commentTimeout = 5 * time.Second

// Beginnings of comments. A Held comment is not replaced by a NoCheckpoint comment. Held and SharedWait comments are
// replaced when the job's run begins.
const (
	Held         = "held: "
	NoCheckpoint = "no checkpoint at "
	SharedWait   = "waits for the shared folder: "
)

// Comments writes the comments of jobs in Slurm.
type Comments struct{ Slurm *slurm.Slurm }

// Write replaces proxyd's part of a job's comment. Slurm refuses that for a job that has
// ended.
func (c Comments) Write(ctx context.Context, job, text string) error {
	ctx, cancel := context.WithTimeout(ctx, commentTimeout)
	defer cancel()
	had, err := c.Slurm.Said(ctx, job)
	if err != nil || strings.Contains(had, commentPrefix+Held) && strings.HasPrefix(text, NoCheckpoint) {
		return err
	}
	return errors.Join(c.Slurm.Comment(ctx, job, composeComment(had, text)), c.writeAdminComment(ctx, job, text))
}

// WriteObstacle replaces the obstacle to the next checkpoint in proxyd's part of a job's comment, and leaves the rest
// as it is; "" removes it. A comment that says so already is not written again.
func (c Comments) WriteObstacle(ctx context.Context, job, text string) error {
	ctx, cancel := context.WithTimeout(ctx, commentTimeout)
	defer cancel()
	had, err := c.Slurm.Said(ctx, job)
	if err != nil || strings.Contains(had, commentPrefix+Held) {
		return err
	}
	var errs []error
	if now := composeObstacle(had, text); now != had {
		errs = append(errs, c.Slurm.Comment(ctx, job, now))
	}
	had, err = c.Slurm.AdminComment(ctx, job)
	if err != nil || had != "" && !strings.HasPrefix(had, commentPrefix) {
		return errors.Join(append(errs, err)...)
	}
	if now := composeObstacle(had, text); now != had {
		errs = append(errs, c.Slurm.SetAdminComment(ctx, job, now))
	}
	return errors.Join(errs...)
}

// EndWait removes proxyd's part of a job's comment if it says that the job is held, or waits for the shared folder.
func (c Comments) EndWait(ctx context.Context, job string) error {
	ctx, cancel := context.WithTimeout(ctx, commentTimeout)
	defer cancel()
	had, err := c.Slurm.Said(ctx, job)
	if err != nil || !tellsOfWait(had) {
		return err
	}
	before, _, _ := strings.Cut(had, commentPrefix)
	errs := []error{c.Slurm.Comment(ctx, job, strings.TrimRight(before, "; "))}
	if had, err = c.Slurm.AdminComment(ctx, job); err == nil && strings.HasPrefix(had, commentPrefix) && tellsOfWait(had) {
		err = c.Slurm.SetAdminComment(ctx, job, "")
	}
	return errors.Join(append(errs, err)...)
}

// tellsOfWait tells whether proxyd's part of a comment says that the job is held, or waits for the shared folder.
func tellsOfWait(comment string) bool {
	_, ours, _ := strings.Cut(comment, commentPrefix)
	return strings.HasPrefix(ours, Held) || strings.HasPrefix(ours, SharedWait)
}

// writeAdminComment writes the text where sacct shows it after the job has gone: Slurm keeps the
// comment itself only where a site configures that. Sites keep data of programs in administrators'
// comments, so a comment that is not proxyd's is left alone.
func (c Comments) writeAdminComment(ctx context.Context, job, text string) error {
	had, err := c.Slurm.AdminComment(ctx, job)
	if err != nil || had != "" && !strings.HasPrefix(had, commentPrefix) {
		return err
	}
	return c.Slurm.SetAdminComment(ctx, job, composeComment("", text))
}

// actionPrefix begins the part of a job's comment that preemptd writes, before proxyd's part.
const actionPrefix = "preemptd: "

// actionHolds matches preemptd's part of a comment if an action holds the job: it may hold the job while it is under way,
// and the rest are actions that are over and have left their hold (preemptd/action/comment.go).
var actionHolds = regexp.MustCompile(`^(?:under way: |held )|; held until singctl resume|; still held: `)

// NamesHold tells whether a job's comment says that proxyd or an action of preemptd's holds the job.
func NamesHold(comment string) bool {
	comment, ours, _ := strings.Cut(comment, commentPrefix)
	_, action, _ := strings.Cut(comment, actionPrefix)
	return strings.HasPrefix(ours, Held) || actionHolds.MatchString(action)
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

// obstacleNote begins the note about an obstacle, the last part of a comment.
const obstacleNote = "cannot be captured as it is: "

// composeObstacle returns the comment had with text as its note about an obstacle.
func composeObstacle(had, text string) string {
	before, ours, _ := strings.Cut(had, commentPrefix)
	ours, _, _ = strings.Cut(ours, obstacleNote)
	ours = strings.TrimRight(ours, "; ")
	switch {
	case text == "" && ours == "":
		return strings.TrimRight(before, "; ")
	case text == "":
		return composeComment(had, ours)
	case ours != "":
		ours += "; "
	}
	return composeComment(had, ours+obstacleNote+text)
}

// reasonOfAction matches the reason of a checkpoint that preemptd has asked for.
var reasonOfAction = regexp.MustCompile(`\(action [0-9]+\)$`)

// CheckpointComment says in a job's comment that a checkpoint was made, and the reason. A reason of preemptd's is left
// out: preemptd's part of the comment has the action, its requester and the reason.
func CheckpointComment(number uint32, at time.Time, reason string) string {
	text := fmt.Sprintf("checkpoint %d at %s", number, at.Format(time.TimeOnly))
	if !reasonOfAction.MatchString(reason) {
		text += " (" + reason + ")"
	}
	return text
}

// goesOnText is how a comment says from which checkpoint the next run of a job goes on, after why the run before ended.
const goesOnText = "; its next run goes on from checkpoint "

// GoesOnFrom returns why, and that the next run of a job goes on from a checkpoint.
func GoesOnFrom(why string, number uint32) string {
	return why + goesOnText + strconv.FormatUint(uint64(number), 10)
}

// checkpointInComment matches the note about a checkpoint that counts, in our part of a comment.
var checkpointInComment = regexp.MustCompile(regexp.QuoteMeta(commentPrefix) +
	`(?:(?:checkpoint|restored from checkpoint) ([0-9]+) (?:at|on) |[^;]*` + goesOnText + `([0-9]+))`)

// NamedCheckpoint returns the checkpoint that a job's comment names; 0: none.
func NamedCheckpoint(comment string) int {
	m := checkpointInComment.FindStringSubmatch(comment)
	if m == nil {
		return 0
	}
	n, err := strconv.Atoi(m[1] + m[2]) // one of which is empty
	if err != nil {
		return 0
	}
	return n
}

// FindCheckpoint returns the newest checkpoint that a job's comments name, or 0. Users can overwrite the comment, and
// not the administrator's comment.
func (c Comments) FindCheckpoint(ctx context.Context, job string) (int, error) {
	said, err := c.Slurm.Said(ctx, job)
	if err != nil {
		return 0, err
	}
	admin, err := c.Slurm.AdminComment(ctx, job)
	return max(NamedCheckpoint(said), NamedCheckpoint(admin)), err
}
