//go:build bench

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// workload is a program that trains for longer than a test takes.
type workload struct {
	name       string
	command    string
	parameters int   // of the model; Adam keeps two numbers for each besides
	workers    []int // of Table 4
	torch      bool  // needs PyTorch with CUDA
}

var allWorkloads = []workload{
	{"mlp", "/shared/bench/bin/mlp --steps 0 --extra 2000000", 16522 + 2000000, []int{1, 2, 4, 8}, false},
	{"gpt", "/shared/bench/bin/gpt --steps 0", 30656, []int{1, 2, 4, 8}, false},
	{"PyTorch GPT", "env MASTER_ADDR=$(hostname) MASTER_PORT=29655 /opt/cuda-software/python /shared/bench/gpt.py --steps 1000000", 110272, []int{1, 2}, true},
}

// trainingCluster raises a cluster of nodes with 4 software GPUs each, with the controller, and returns the workloads that can run there. PyTorch
// is among them where contrib/cuda-software has fetched it before.
func trainingCluster(t *testing.T, nodes int) (c *cluster, workloads []workload) {
	t.Helper()
	options := []string{"--nodes", fmt.Sprint(nodes), "--gpus", "4", "--controller"}
	torch := exec.Command("../../contrib/cuda-software/fetch", "--where").Run() == nil
	if torch {
		options = append(options, "--with-torch-cuda")
	} else {
		t.Log("no PyTorch: contrib/cuda-software/fetch fetches it")
	}
	c = raiseCluster(t, options...)
	if err := os.Mkdir(c.sharedPath("bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	runCommand(t, exec.Command("make", "-s", "-C", "../workloads", "O="+c.sharedPath("bin")))
	runCommand(t, exec.Command("cp", "../pytorch/programs/gpt.py", c.sharedPath()))
	for _, w := range allWorkloads {
		if torch || !w.torch {
			workloads = append(workloads, w)
		}
	}
	return c, workloads
}

// training is a job that trains.
type training struct {
	c  *cluster
	id string
}

// startTraining submits a job and waits until the job trains. The job ends with the test, or with stop.
func (c *cluster) startTraining(t *testing.T, w workload, options, launch string) *training {
	t.Helper()
	id, _ := c.submitJob(t, options, fmt.Sprintf("%s %s >$SLURM_JOB_ID.losses", launch, w.command))
	j := &training{c, id}
	t.Cleanup(func() {
		exec.Command(*mcProgram, "exec", "--name", c.name, "ctl", "--", "scancel", "--quiet", id).Run()
	})
	j.waitForSteps(t)
	return j
}

// stop ends the job, and waits until its nodes are free.
func (j *training) stop(t *testing.T) {
	t.Helper()
	j.c.runScript(t, "ctl", "root", "scancel "+j.id)
	j.c.waitForEnd(t, j.id)
}

// waitForSteps waits until the job has made two more steps: the first may have been under way. Every step is there once.
func (j *training) waitForSteps(t *testing.T) {
	t.Helper()
	begin := -1
	for end := time.Now().Add(4 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		losses, _ := os.ReadFile(j.c.sharedPath(j.id + ".losses"))
		steps := strings.Split(string(losses), "\n")
		done := len(steps) - 1
		for i, line := range steps[:done] {
			if !strings.HasPrefix(line, fmt.Sprintf("step %d ", i+1)) {
				t.Fatalf("job %s: line %d of its losses is %q", j.id, i+1, line)
			}
		}
		if begin < 0 {
			begin = done
		}
		if done >= begin+2 {
			return
		}
		if time.Now().After(end) {
			log, _ := os.ReadFile(j.c.sharedPath(j.id + ".log"))
			t.Fatalf("job %s stays at step %d; its log: %s; %s", j.id, done, log, j.c.runScript(t, "ctl", "root", "squeue -l; scontrol show job "+j.id))
		}
	}
}

// event is a line of a job's time line.
type event struct {
	Time        time.Time
	Event, Text string
}

// shown has the fields of a job in the output of singctl show --json.
type shown struct {
	Timeline    []event
	Checkpoints []checkpoint
}

// showJob asks for the job. While the job waits there is no answer, and the result is empty.
func (j *training) showJob(t *testing.T) (all shown) {
	t.Helper()
	said := j.c.runScript(t, "ctl", "alice", "singctl show --json "+j.id+" 2>/dev/null || echo '{}'")
	if err := json.Unmarshal([]byte(said), &all); err != nil {
		t.Fatalf("singctl show: %v: %s", err, said)
	}
	return all
}
