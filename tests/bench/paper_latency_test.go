//go:build bench

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// journey is how long a job took to get to other nodes or devices, in seconds.
type journey struct {
	total   float64 // from the command until the job runs on
	decided float64 // until the checkpoint begins to look for a cut
	barrier float64 // until all ranks stand at a cut
	dump    float64 // until the checkpoint is committed
	upload  float64 // from the stage into the store, while Slurm works; 0: no staging
	slurm   float64 // until the job is started again
	restore float64 // until the job is restored
}

// journeys are the journeys of a single kind.
type journeys []journey

// formatCell returns the median of a part of journeys, and the two values between which half of them are.
func (all journeys) formatCell(part func(journey) float64) string {
	var values []float64
	for _, one := range all {
		values = append(values, part(one))
	}
	if quantileOf(values, 1) == 0 {
		return "–"
	}
	return formatSpread(values, "%.2f")
}

// formatRow returns a line of the table.
func (all journeys) formatRow(w workload, what string) string {
	cells := []string{w.name, what}
	for _, part := range []func(journey) float64{
		func(j journey) float64 { return j.total }, func(j journey) float64 { return j.decided }, func(j journey) float64 { return j.barrier },
		func(j journey) float64 { return j.dump }, func(j journey) float64 { return j.upload }, func(j journey) float64 { return j.slurm },
		func(j journey) float64 { return j.restore }, func(j journey) float64 { return j.total - j.slurm },
	} {
		cells = append(cells, all.formatCell(part))
	}
	return "| " + strings.Join(cells, " | ") + " |\n"
}

// measureLatencies returns Table 5: jobs that migrate, and that get fewer and more devices, by a requeue and in place.
func measureLatencies(t *testing.T) string {
	c, workloads := trainingCluster(t, 4)
	var requeued, inPlace strings.Builder
	for _, w := range workloads {
		c.moveAround(t, w, "", &requeued)
		if !w.torch { // its ranks choose their GPUs by number and are started by Slurm
			c.resizeInPlace(t, w, &inPlace)
		}
	}
	for i := range 4 {
		host := fmt.Sprintf("n%d", i+1)
		c.runScript(t, host, "root", "mkdir -m 700 /dev/shm/stage; echo 'staging: {folder: /dev/shm/stage}' >>/etc/singularity-slurm/proxyd.yaml")
		c.runMinicluster(t, "restart", host, "proxyd")
	}
	for _, w := range workloads {
		if !w.torch { // PyTorch takes minutes
			c.moveAround(t, w, ", staged", &requeued)
		}
	}
	return "| workload | devices | total | until it is begun | barrier | dump | upload, meanwhile | Slurm | restore | without Slurm |\n" +
		"| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n" + requeued.String() + "\nIn place, by leases:\n\n" +
		"| workload | devices | total | the ranks stand still, and their memory is moved |\n| --- | --- | --- | --- |\n" + inPlace.String()
}

// moveAround moves a job of four ranks on two nodes to other nodes, and to half of its devices and back.
func (c *cluster) moveAround(t *testing.T, w workload, how string, b *strings.Builder) {
	t.Helper()
	j := c.startTraining(t, w, "--nodelist=n1,n2 --nodes=2 --ntasks-per-node=2 --gpus-per-node=2 --singularity", "srun")
	kinds := []string{"4-to-4" + how, "4-to-2" + how, "2-to-4" + how}
	got := map[string]journeys{}
	rounds := *paperRounds
	if w.torch {
		rounds = 1
	}
	for i := range rounds {
		to := []string{"n3,n4", "n1,n2"}[i%2]
		for k, command := range []string{"migrate --to " + to, "resize --gpus 1", "resize --gpus 2"} {
			verb, options, _ := strings.Cut(command, " ")
			one := j.moveJob(t, verb, options, how != "")
			t.Logf("%s, %s: %+v", w.name, kinds[k], one)
			got[kinds[k]] = append(got[kinds[k]], one)
		}
	}
	for _, kind := range kinds {
		b.WriteString(got[kind].formatRow(w, kind))
	}
	j.stop(t)
}

// moveJob has an operator do something to the job, for which the job is started again.
func (j *training) moveJob(t *testing.T, verb, options string, staged bool) (one journey) {
	t.Helper()
	began := time.Now()
	j.c.runScript(t, "ctl", "operator", fmt.Sprintf("singctl %s %s %s --reason measured", verb, j.id, options))
	at := j.awaitEvent(t, "restored", began)
	j.waitForSteps(t)
	all := j.showJob(t)
	k := slices.MaxFunc(all.Checkpoints, func(a, b checkpoint) int { return a.Number - b.Number })
	if staged {
		one.upload = j.awaitUpload(t, k.Number)
	}
	one.barrier = k.phasesTook("cut")
	one.dump = k.phasesTook("freeze", "drain", "halt", "dump", "commit")
	one.decided = at["checkpoint"].Sub(began).Seconds() - one.barrier - one.dump
	one.slurm = at["started"].Sub(at["checkpoint"]).Seconds()
	one.restore = at["restored"].Sub(at["started"]).Seconds()
	one.total = at["restored"].Sub(began).Seconds()
	return one
}

// awaitEvent waits for an event in the job's time line, and returns when the first event of each kind was since a moment.
func (j *training) awaitEvent(t *testing.T, event string, since time.Time) map[string]time.Time {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		at := map[string]time.Time{}
		timeline := j.showJob(t).Timeline
		for _, e := range timeline {
			if _, again := at[e.Event]; !again && e.Time.After(since) {
				at[e.Event] = e.Time
			}
		}
		if !at[event].IsZero() {
			return at
		}
		if time.Now().After(end) {
			t.Fatalf("job %s: not %s: %+v; %s", j.id, event, timeline, j.c.runScript(t, "ctl", "root", "scontrol show job "+j.id))
		}
	}
}

// awaitUpload waits until a checkpoint is in the store, which may be after the restore, and returns how long its nodes took for the upload, in seconds.
func (j *training) awaitUpload(t *testing.T, number int) float64 {
	t.Helper()
	over := regexp.MustCompile(fmt.Sprintf(`msg="upload over" job=%s checkpoint=%d took=(\S+) error=<nil>`, j.id, number))
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		for i := range 4 {
			if m := over.FindStringSubmatch(j.c.daemonLog(t, fmt.Sprintf("n%d", i+1), "proxyd")); m != nil {
				took, err := time.ParseDuration(m[1])
				if err != nil {
					t.Fatal(err)
				}
				return took.Seconds()
			}
		}
	}
	t.Fatalf("job %s: checkpoint %d is not in the store", j.id, number)
	return 0
}

// placed matches the line that a node logs when a job's devices are on other GPUs.
var placed = regexp.MustCompile(`msg="devices are placed".* took=(\S+)`)

// resizeInPlace has a job of four ranks get two more devices, and give them back, while the job runs.
func (c *cluster) resizeInPlace(t *testing.T, w workload, b *strings.Builder) {
	t.Helper()
	w.command += " --ranks 4 --processes"
	j := c.startTraining(t, w, "--nodelist=n1 --ntasks=1 --gpus-per-node=2 --singularity-gpus=2-4", "")
	totals, stills := map[int][]float64{}, map[int][]float64{}
	for range *paperRounds {
		for _, gpus := range []int{4, 2} {
			before := len(placed.FindAllString(c.daemonLog(t, "n1", "proxyd"), -1))
			began := time.Now()
			c.runScript(t, "ctl", "operator", fmt.Sprintf("singctl resize %s --gpus %d --reason measured", j.id, gpus))
			total, still := time.Since(began).Seconds(), 0.0
			for _, m := range placed.FindAllStringSubmatch(c.daemonLog(t, "n1", "proxyd"), -1)[before:] {
				took, err := time.ParseDuration(m[1])
				if err != nil {
					t.Fatal(err)
				}
				still += took.Seconds()
			}
			t.Logf("%s, to %d GPUs in place: %.2f s, stood still for %.3f s", w.name, gpus, total, still)
			totals[gpus], stills[gpus] = append(totals[gpus], total), append(stills[gpus], still)
			j.waitForSteps(t)
		}
	}
	for _, gpus := range []int{4, 2} {
		fmt.Fprintf(b, "| %s | %d-to-%d | %s | %s |\n", w.name, 6-gpus, gpus, formatSpread(totals[gpus], "%.2f"), formatSpread(stills[gpus], "%.3f"))
	}
	j.stop(t)
}
