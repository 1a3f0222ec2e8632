//go:build bench

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

var aimStart = atMost(0.150, "≤ 150 ms more")

// measureStart measures the time until the first instruction of a batch script, and of a
// step's task within it, runs.
func measureStart(t *testing.T, c *cluster) []figure {
	c.startOf(t, "") // the caches are warm
	c.startOf(t, "--singularity")
	var launched, sbatch turns
	for i := range max(1, *rounds/2) {
		order := []string{"", "--singularity"}
		if i%2 == 1 {
			order[0], order[1] = order[1], order[0]
		}
		got := map[string][2]float64{}
		for _, o := range order {
			l, s := c.startOf(t, o)
			got[o] = [2]float64{l, s}
		}
		t.Logf("%d: from launch, and sbatch, in seconds: %v", i+1, got)
		launched.add(got[""][0], got["--singularity"][0])
		sbatch.add(got[""][1], got["--singularity"][1])
	}
	return append([]figure{
		launched.more("batch script, from slurmd's launch to its first instruction", formatMilliseconds, aimStart),
		sbatch.more("sbatch", formatMilliseconds, noAim),
	}, c.startOfSteps(t)...)
}

// launch matches the line that slurmd logs at the beginning of a batch job.
var launch = regexp.MustCompile(`(?m)^\[([-0-9T:.]+)\] Launching batch JobId=(\d+) `)

// startOf starts a job and returns the time between slurmd's launch and the script's first instruction, and the time
// that sbatch took, in seconds. The time between sbatch's end and the launch is left out: the scheduler looks for jobs
// at times of its own.
func (c *cluster) startOf(t *testing.T, options string) (launched, sbatch float64) {
	t.Helper()
	job, sbatch := c.submitJob(t, "-w n1 "+options, "echo $EPOCHREALTIME")
	c.waitForEnd(t, job)
	b, err := os.ReadFile(c.sharedPath(job + ".log"))
	if err != nil {
		t.Fatal(err)
	}
	first, err := strconv.ParseFloat(strings.TrimSpace(string(b)), 64)
	if err != nil {
		t.Fatalf("job %s: %v", job, err)
	}
	for _, m := range launch.FindAllStringSubmatch(c.daemonLog(t, "n1", "slurmd"), -1) {
		if m[2] == job {
			l, err := time.ParseInLocation("2006-01-02T15:04:05.000", m[1], time.Local)
			if err != nil {
				t.Fatal(err)
			}
			return first - float64(l.UnixMilli())/1e3, sbatch
		}
	}
	t.Fatalf("slurmd does not say when it launched job %s", job)
	return 0, 0
}

// stepper is a script that runs a step for each line of its input.
const stepper = `exec 3<$in 4>$out; echo ready >&4
while read -r _ <&3; do
	began=$EPOCHREALTIME
	first=$(srun -n1 bash -c 'echo $EPOCHREALTIME')
	echo $began $first $EPOCHREALTIME >&4
done`

func (c *cluster) startOfSteps(t *testing.T) []figure {
	plain, ours := c.startBoth(t, "steps", "-w n1", stepper)
	var begin, all turns
	for i := range *rounds/2 + 1 {
		p, o := plain.askNumbers(t, "go", 3), ours.askNumbers(t, "go", 3)
		if i == 0 {
			continue // the caches are warm
		}
		begin.add(p[1]-p[0], o[1]-o[0])
		all.add(p[2]-p[0], o[2]-o[0])
	}
	return []figure{
		begin.more("step, from srun to its task's first instruction", formatMilliseconds, aimStart),
		all.more("step that does nothing, from srun to its end", formatMilliseconds, noAim),
	}
}
