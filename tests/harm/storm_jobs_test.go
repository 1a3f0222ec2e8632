//go:build harm

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package harm

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// longest is the number of steps that a job of the storm counts or trains, unless the test stops the job: a minute.
const longest = 600

// longestTraining is the number of steps of a training with actions that meet harm, unless the test stops the job: ten minutes.
const longestTraining = 6000

// buildTraining puts the training where the cluster's hosts find the program, and has the machine that
// the test runs on print the losses of an undisturbed run.
func (w *world) buildTraining(ctx context.Context, t *testing.T) ([]byte, error) {
	bin := t.TempDir()
	if said, err := exec.CommandContext(ctx, "make", "-s", "-C", "../workloads", "O="+bin).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("the workloads: %w\n%s", err, said)
	}
	program, err := os.ReadFile(filepath.Join(bin, "mlp"))
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(w.Shared("bin"), 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(w.Shared("bin/mlp"), program, 0o755); err != nil {
		return nil, err
	}
	var said bytes.Buffer
	undisturbed := exec.CommandContext(ctx, "../../bin/proxyd", "run", "--soft", "2", "--",
		filepath.Join(bin, "mlp"), "--ranks", "2", "--steps", strconv.Itoa(longestTraining))
	undisturbed.Stderr = &said
	losses, err := undisturbed.Output()
	if err != nil {
		return nil, fmt.Errorf("the run that nothing disturbs: %w\n%s", err, &said)
	}
	lines := bytes.SplitAfterN(losses, []byte("\n"), longestTraining+1)
	if len(lines) <= longestTraining {
		return nil, fmt.Errorf("the run that nothing disturbs printed %d lines, not %d:\n%.2000s", len(lines)-1, longestTraining, losses)
	}
	return bytes.Join(lines[:longestTraining], nil), nil
}

// mayGrow are the options of a training on a GPU, which may have a second GPU lent.
var mayGrow = []string{"--gpus-per-node=1", "--singularity-gpus=1-2"}

// writeTraining returns the script of a training of so many steps.
func writeTraining(steps int) string {
	return strings.Replace(inTraining, "LINES", strconv.Itoa(steps), 1)
}

// submitJob submits the job of a place in the storm. Of four places, a job of the second counts in Python, and a job of the
// fourth trains on GPUs; the other jobs count in bash. Some jobs that do not train have two tasks, on two nodes.
func (s *storm) submitJob(ctx context.Context, place int) (*counter, error) {
	script, options := inBash, []string{"--qos=" + []string{"basic", "standard", "premium"}[place%3]}
	training := place%4 == 3
	switch {
	case training:
		script, options = writeTraining(longest), append(options, mayGrow...)
	case place%4 == 1:
		script = inPython
	}
	if place%5 == 2 && !training {
		options = append(options, "-n2")
	}
	// A job that lost its node before its first checkpoint begins anew.
	script = strings.NewReplacer("exec 3>>numbers", "echo >>begins; exec 3>numbers", `"a"`, `"w"`,
		"until [ -e stop ]", fmt.Sprintf("until [ -e stop ] || [ $i = %d ]", longest),
		`exists("stop")`, fmt.Sprintf(`exists("stop") and i < %d`, longest)).Replace(script)
	s.submitted++
	c, err := s.submitCounter(ctx, fmt.Sprint("random", s.submitted), script, options...)
	if err == nil && training {
		c.losses = s.losses
	}
	return c, err
}

// replaceEndedJobs looks at all jobs, judges the jobs that have ended, and submits other jobs in their places.
func (s *storm) replaceEndedJobs(ctx context.Context, t *testing.T) error {
	t.Helper()
	for place, c := range s.jobs {
		now := c.readSituation(ctx)
		if !now.hasEnded() {
			continue
		}
		err := c.checkOutput()
		if now.state != "COMPLETED" {
			err = fmt.Errorf("job %d is lost: %s", c.id, now)
		}
		if err != nil {
			s.judged.lost++
			t.Error(err)
		}
		s.ended++
		next, err := s.submitJob(ctx, place)
		if err != nil {
			return err
		}
		s.jobs[place] = next
	}
	return nil
}
