// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cluster

package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestRequeueEnded: a job that has ended by itself begins anew when a person requeues the job, although the job's comment
// still names a checkpoint, which was deleted with the job. Checkpoints of the run that begins anew count as ever.
func TestRequeueEnded(t *testing.T) {
	t.Parallel()
	c := raiseProtected(t, "t-requeue-ended", "--nodes", "1")
	for name, row := range map[string]struct {
		exit    int
		cleaned bool // the job's files in the shared folder are removed before the requeue
	}{
		"completed": {0, false}, "failed": {3, false}, "completed and cleaned": {0, true}, "failed and cleaned": {3, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := c.submitJob(t, "--singularity", fmt.Sprintf(`n=$(cat runs.$SLURM_JOB_ID 2>/dev/null || echo 0); n=$((n + 1)); echo $n > runs.$SLURM_JOB_ID
				echo run $n; while [ ! -e go.$SLURM_JOB_ID.$n ]; do sleep 0.05; done
				echo end $n; exit %d`, row.exit))
			goOn := func(run int) {
				t.Helper()
				if err := os.WriteFile(c.homePath(fmt.Sprintf("go.%s.%d", job, run)), nil, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			c.waitForLine(t, job, "run 1")
			c.checkCommand(t, "alice", "singctl checkpoint "+job, 0, "")
			hasComment := func(text string) {
				t.Helper()
				waitFor(t, 30*time.Second, func() (bool, string) {
					s := c.showColumn(t, job, "Comment")
					return strings.Contains(s, text), "job " + job + ": " + s
				})
			}
			hasComment("checkpoint 1 at")
			goOn(1)
			first := c.waitForEnd(t, job)
			if row.cleaned {
				record := filepath.Join("/var/lib/minicluster", c.name, "shared/singularity/jobs", job+".json")
				waitFor(t, 30*time.Second, func() (bool, string) {
					_, err := os.Stat(record)
					return errors.Is(err, fs.ErrNotExist), fmt.Sprint(record, ": ", err)
				})
			}

			c.checkCommand(t, "alice", "scontrol requeue "+job, 0, "")
			c.restartJob(t, job, "")
			c.waitForLine(t, job, "run 2")
			hasComment("begins anew")
			c.checkCommand(t, "alice", "scontrol requeue "+job, 0, "")
			c.restartJob(t, job, "") // captured by the requeue: run 2 resumes
			goOn(2)
			if second := c.waitForEnd(t, job); strings.Fields(second)[0] != strings.Fields(first)[0] {
				t.Errorf("ended first as %s, then as %s", first, second)
			}
			if got := c.jobLog(job); got != "run 1\nend 1\nrun 2\nend 2" {
				t.Errorf("the job's log is not as expected:\n%s", strings.TrimSpace(got))
			}
		})
	}
}
