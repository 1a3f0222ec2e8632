//go:build cluster

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// recordedBytes returns how many bytes of files the last checkpoint of a job has, and how many of them it has written.
func (c protected) recordedBytes(t *testing.T, node, job string) (all, written int) {
	t.Helper()
	found := regexp.MustCompile(`msg="files are recorded".* job=`+job+` .* bytes=(\d+) written=(\d+)`).FindAllStringSubmatch(c.proxydLog(node), -1)
	if len(found) == 0 {
		t.Fatalf("proxyd of %s has logged nothing of the files of job %s", node, job)
	}
	last := found[len(found)-1]
	all, _ = strconv.Atoi(last[1])
	written, _ = strconv.Atoi(last[2])
	return all, written
}

// TestChangedFiles: a checkpoint writes only those files of a job that changed since the checkpoint before, into the
// store and into stages. After the death of the node the files are as at that checkpoint, also files that the program
// changes by a mapping.
func TestChangedFiles(t *testing.T) {
	t.Parallel()
	c := raiseProtected(t, "t-changed", "--nodes", "3")
	text, err := os.ReadFile("testdata/changes.py")
	if err == nil {
		err = os.WriteFile(filepath.Join("/var/lib/minicluster", c.name, "shared/home/alice/changes.py"), text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Run("store", func(t *testing.T) { c.changeFiles(t, "stored") })
	c.configureStaging(t, "/var/lib/stage", "1G")
	t.Run("stage", func(t *testing.T) { c.changeFiles(t, "staged") })
}

// TestSharedFiles: lines that another job appends to files while a job is away stay there: to files to which both append,
// of which the job opens one for each line and has the other one open, and to a file that the job has open to read, and of
// which the restored job reads the rest.
func TestSharedFiles(t *testing.T) {
	t.Parallel()
	c := raiseProtected(t, "t-shared", "--nodes", "2")
	c.runScript(t, "cd; echo first > other.log; echo before > kept-open.csv")
	job := c.submitJob(t, "--singularity -w n1", `tail -n +1 -f other.log & follower=$!
exec 5>>kept-open.csv
for i in $(seq 30); do echo mine $i >> results.csv; echo mine $i >&5; echo $i; sleep 0.3; done
until grep -q "^third" $SLURM_JOB_ID.log; do sleep 0.1; done; kill $follower`)
	c.waitForLine(t, job, "first")
	c.waitForLine(t, job, "8")
	c.runAsRoot(t, "scontrol requeue "+job)
	waitFor(t, 90*time.Second, func() (bool, string) {
		state := c.showColumn(t, job, "State")
		return state == "PENDING", "job " + job + ": " + state
	})
	c.runScript(t, "cd; echo theirs | tee -a kept-open.csv >> results.csv; echo second >> other.log")
	c.runAsRoot(t, "scontrol update ReqNodeList= JobId="+job)
	c.restartJob(t, job, "n1")
	c.waitForLine(t, job, "30")
	c.runScript(t, "cd; echo third >> other.log") // tail looks when its watch tells of a change, and the watch has seen none yet
	c.waitForLine(t, job, "second")
	c.waitForLine(t, job, "third")
	if s := c.waitForEnd(t, job); !strings.Contains(s, "COMPLETED") {
		t.Errorf("the job ended as %s, want COMPLETED", s)
	}
	for name, want := range map[string][]string{"results.csv": {"theirs"}, "kept-open.csv": {"before", "theirs"}} {
		text, err := os.ReadFile(c.homePath(name))
		if err != nil {
			t.Fatal(err)
		}
		for n := range 30 {
			want = append(want, "mine "+strconv.Itoa(n+1))
		}
		got := strings.Split(strings.TrimSpace(string(text)), "\n")
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s has %q, want %q", name, got, want)
		}
	}
}

// changeFiles has a job change files in a folder, takes checkpoints of the job, and kills its node.
func (c protected) changeFiles(t *testing.T, folder string) {
	job := c.submitJob(t, "--singularity -w n1", "python3 changes.py "+folder)
	progress := func(more int) { c.waitForLine(t, job, strconv.Itoa(more+strings.Count(c.jobLog(job), "\n"))) }
	c.waitForLine(t, job, "20")
	for i, most := range []int{64 << 20, 16 << 20, 16 << 20} {
		c.runOn(t, "ctl", "alice", "singctl", "checkpoint", job).mustSucceed(t)
		if all, written := c.recordedBytes(t, "n1", job); all < 48<<20 || written > most {
			t.Errorf("checkpoint %d has %d bytes of files, and has written %d of them, not %d at most", i+1, all, written, most)
		}
		progress(10)
	}
	progress(30)
	runMinicluster(t, "fail", "n1", "--name", c.name).mustSucceed(t)
	c.runAsRoot(t, "scontrol update NodeName=n1 State=DOWN Reason=test")
	c.restartElsewhere(t, job, "n[1,3]")
	progress(10)
	c.runOn(t, "ctl", "alice", "touch", folder+"/stop").mustSucceed(t)
	c.waitForEnd(t, job)
	if log := c.jobLog(job); !strings.HasSuffix(strings.TrimSpace(log), "\nend: all as remembered") {
		t.Errorf("log: …%s", log[max(0, len(log)-300):])
	}
	if want := `msg="job restored" job=` + job + " checkpoint=3\n"; !strings.Contains(c.proxydLog("n2"), want) {
		t.Errorf("proxyd of n2 has not logged %q:\n%s", want, c.proxydLog("n2"))
	}
	runMinicluster(t, "heal", "n1", "--name", c.name).mustSucceed(t)
	c.runScript(t, "scontrol update NodeName=n1 State=RESUME || true")
}
