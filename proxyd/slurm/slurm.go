// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package slurm has the requests of a node's daemon to Slurm: about jobs, and to act on jobs of its
// own node. The package runs scontrol: root on a node is a super user to every release by munge
// alone, where REST would need slurmrestd within reach of each node and a token kept on the node.
package slurm

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// ErrNoJob is the error of Show for a job that Slurm does not know (any more).
var ErrNoJob = errors.New("no such job")

// Slurm runs scontrol, squeue, scancel and sbatch. A Slurm is safe for concurrent use.
type Slurm struct{ scontrol, squeue, scancel, sbatch slurmrest.Scontrol }

// New returns a Slurm that runs the scontrol at path, and the other commands in the same folder.
func New(path string) *Slurm {
	return &Slurm{
		controllerCommand{slurmrest.ExecScontrol{Path: path}},
		controllerCommand{slurmrest.ExecScontrol{Path: filepath.Join(filepath.Dir(path), "squeue")}},
		controllerCommand{slurmrest.ExecScontrol{Path: filepath.Join(filepath.Dir(path), "scancel")}},
		controllerCommand{slurmrest.ExecScontrol{Path: filepath.Join(filepath.Dir(path), "sbatch")}},
	}
}

// Show returns Slurm's record of a job: "812", or "812_3" for a task of an array.
func (s *Slurm) Show(ctx context.Context, job string) (*Job, error) {
	out, err := s.squeue.Run(ctx, "--noheader", "--states=all", "--jobs="+job, "--Format="+columns)
	var failed *slurmrest.ScontrolError
	if errors.As(err, &failed) && strings.Contains(failed.Output, "Invalid job id") || err == nil && len(out) == 0 {
		err = ErrNoJob
	}
	if err != nil {
		return nil, fmt.Errorf("show job %s: %w", job, err)
	}
	j, err := parseJob(string(out), job)
	if err != nil {
		return nil, fmt.Errorf("show job %s: %w", job, err)
	}
	if j.Nodes, err = s.Expand(ctx, j.nodeList); err != nil {
		return nil, fmt.Errorf("show job %s: %w", job, err)
	}
	return j, nil
}

// All returns the jobs that Slurm knows, by number, without their nodes. The tasks of an array that
// have no record of their own yet are a single job. Lines of squeue that cannot be parsed are left
// out.
func (s *Slurm) All(ctx context.Context) (map[uint32]*Job, error) {
	out, err := s.squeue.Run(ctx, "--noheader", "--all", "--states=all", "--Format="+columns)
	if err != nil {
		return nil, fmt.Errorf("list jobs: %w", err)
	}
	all := map[uint32]*Job{}
	for line := range strings.Lines(string(out)) {
		if j, err := parseLine(strings.TrimSpace(line)); err == nil {
			all[j.ID] = j
		}
	}
	return all, nil
}

// Expand turns a host list, "n[1-3,7]", into its names, in Slurm's order.
func (s *Slurm) Expand(ctx context.Context, list string) ([]string, error) {
	if list == "" {
		return nil, nil
	}
	if !strings.ContainsAny(list, "[],") {
		return []string{list}, nil
	}
	out, err := s.scontrol.Run(ctx, "show", "hostnames", list)
	if err != nil {
		return nil, fmt.Errorf("expand %s: %w", list, err)
	}
	return strings.Fields(string(out)), nil
}

// Address returns the name or address by which Slurm reaches a node.
func (s *Slurm) Address(ctx context.Context, node string) (string, error) {
	out, err := s.scontrol.Run(ctx, "show", "node", "-o", node)
	if err != nil {
		return "", fmt.Errorf("show node %s: %w", node, err)
	}
	for word := range strings.FieldsSeq(string(out)) {
		if a, ok := strings.CutPrefix(word, "NodeAddr="); ok && a != "" {
			return a, nil
		}
	}
	return node, nil
}

// Said returns a job's comment.
func (s *Slurm) Said(ctx context.Context, job string) (string, error) {
	return s.readColumn(ctx, job, "Comment")
}

// Name returns the job's name, which its user chose.
func (s *Slurm) Name(ctx context.Context, job string) (string, error) {
	return s.readColumn(ctx, job, "Name")
}

// readColumn asks for text that a user has written, which could imitate the columns beside it.
func (s *Slurm) readColumn(ctx context.Context, job, column string) (string, error) {
	out, err := s.squeue.Run(ctx, "--noheader", "--states=all", "--jobs="+job, "--Format="+column+":"+wide)
	text := strings.TrimSpace(string(out))
	if text == "(null)" {
		text = ""
	}
	return text, withJob(err, strings.ToLower(column)+" of job", job)
}

// wide is a width that is larger than any comment.
const wide = "4096"

// Comment sets a job's comment.
func (s *Slurm) Comment(ctx context.Context, job, text string) error {
	_, err := s.scontrol.Run(ctx, "update", "JobId="+job, "Comment="+text)
	return withJob(err, "comment of job", job)
}

// AdminComment returns the administrator's comment of a job, which sacct shows after the job has
// gone.
func (s *Slurm) AdminComment(ctx context.Context, job string) (string, error) {
	return s.readColumn(ctx, job, "admin_comment")
}

// SetAdminComment sets the administrator's comment of a job.
func (s *Slurm) SetAdminComment(ctx context.Context, job, text string) error {
	_, err := s.scontrol.Run(ctx, "update", "JobId="+job, "AdminComment="+text)
	return withJob(err, "administrator's comment of job", job)
}

// Requeue requeues a job, or starts the job again after Slurm has ended it. A job that waits
// already is left alone. Slurm refuses while the job completes after an end of its own; then
// Requeue tries again until ctx is done.
func (s *Slurm) Requeue(ctx context.Context, job string) error {
	return s.requeueJob(ctx, job, "requeue")
}

// RequeueHold is Requeue, and holds the job.
func (s *Slurm) RequeueHold(ctx context.Context, job string) error {
	return s.requeueJob(ctx, job, "requeuehold")
}

// Release ends the hold of a job that waits. A job that is not held is left alone.
func (s *Slurm) Release(ctx context.Context, job string) error {
	_, err := s.scontrol.Run(ctx, "release", job)
	return withJob(err, "release job", job)
}

// requeueAgain is the wait before Slurm is asked again: Slurm does not report when a job has
// completed.
const requeueAgain = 500 * time.Millisecond

func (s *Slurm) requeueJob(ctx context.Context, job, verb string) error {
	for {
		_, err := s.scontrol.Run(ctx, verb, job)
		var failed *slurmrest.ScontrolError
		switch {
		case !errors.As(err, &failed):
			return withJob(err, verb+" job", job)
		case strings.Contains(failed.Output, "pending execution"):
			return nil // another caller was quicker
		case !strings.Contains(failed.Output, "ompleting"):
			return withJob(err, verb+" job", job)
		}
		select {
		case <-ctx.Done():
			return withJob(err, verb+" job", job)
		case <-time.After(requeueAgain):
		}
	}
}

// Cancel ends a job. A job that is over is left alone.
func (s *Slurm) Cancel(ctx context.Context, job string) error {
	_, err := s.scancel.Run(ctx, "--quiet", job)
	return withJob(err, "cancel job", job)
}

func withJob(err error, what, job string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", what, job, err)
}
