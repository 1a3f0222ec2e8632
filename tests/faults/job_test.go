//go:build faults

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// alice's user and group number, on every host.
const aliceID = 1001

// megabytes of memory of each task: enough for a dump to take a while.
const megabytes = 32

// job is the counting program in two tasks on two nodes (testdata/count.py), or a training there (train.sh).
type job struct {
	c      *cluster
	id     string
	folder string // below /shared
	gpus   bool   // a training
}

// state has the fields of a job in Slurm.
type state struct {
	name, reason, comment, exit string
	restarts                    int
	nodes                       []string // the first has the batch script
}

func (s state) String() string {
	return fmt.Sprintf("%s (%s), exit %s, %d restarts, on %s, comment %q", s.name, s.reason, s.exit, s.restarts, strings.Join(s.nodes, ","), s.comment)
}

// waits tells whether the job is to run again; held tells whether a person must release the job first.
func (s state) waits() bool {
	return slices.Contains([]string{"PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT"}, s.name)
}

func (s state) held() bool {
	return s.name == "REQUEUE_HOLD" || s.waits() && strings.Contains(strings.ToLower(s.reason), "held")
}

// heldForLaunch tells whether Slurm itself holds the job, because a node has refused to start a run: proxyd releases
// such a job.
func (s state) heldForLaunch() bool {
	return s.held() && strings.Contains(strings.ReplaceAll(s.reason, "_", " "), "launch failed")
}

// over tells whether the job's state in Slurm is final.
func (s state) over() bool {
	return slices.Contains([]string{"COMPLETED", "FAILED", "CANCELLED", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE"}, s.name)
}

// submitJob starts the program and waits until the program counts; with gpus, the training on software GPUs.
func (c *cluster) submitJob(ctx context.Context, name string, gpus bool) (*job, error) {
	j := &job{c: c, folder: "faults/" + name, gpus: gpus}
	folder := c.Shared(j.folder)
	if err := errors.Join(os.RemoveAll(folder), os.Mkdir(folder, 0o755), os.Chown(folder, aliceID, aliceID)); err != nil {
		return nil, err
	}
	command, options := fmt.Sprintf("python3 /shared/faults/count.py \"$(hostname)\" /shared/%s %d", j.folder, megabytes), []string{}
	if gpus {
		if err := c.makeTraining(ctx); err != nil {
			return nil, err
		}
		command, options = "bash /shared/faults/train.sh /shared/"+j.folder, []string{"--gpus-per-node=1"}
	}
	script := "#!/bin/bash\necho begin\nsrun " + command + "\necho rc $?\n"
	if err := os.WriteFile(filepath.Join(folder, "script"), []byte(script), 0o755); err != nil {
		return nil, err
	}
	var err error
	submit := []string{"env", "--chdir=/shared/" + j.folder, "sbatch", "--parsable", "--singularity", "-N2", "-n2", "--time=30", "--output=log"}
	j.id, err = c.Exec(ctx, "ctl", "alice", append(append(submit, options...), "script")...)
	if err != nil {
		return nil, err
	}
	if err := j.waitForCounting(ctx, 4*time.Minute); err != nil {
		is, unknown := j.readState(ctx)
		hosts, _ := c.Exec(ctx, "ctl", "root", "sinfo", "--noheader", "--Node", "--format=%N %T %E")
		log, _ := os.ReadFile(filepath.Join(folder, "log"))
		return j, errors.Join(fmt.Errorf("%w: %s; its log:\n%s\nnodes:\n%s", err, is, log, hosts), unknown)
	}
	return j, nil
}

// readCount returns the number that both tasks have reached. In a training, the first task prints for both.
func (j *job) readCount() int {
	least, ranks := -1, 2
	if j.gpus {
		ranks = 1
	}
	for rank := range ranks {
		b, err := os.ReadFile(j.c.Shared(fmt.Sprintf("%s/latest%d", j.folder, rank)))
		if err != nil {
			return 0
		}
		n, err := strconv.Atoi(strings.TrimSpace(string(b)))
		if err != nil {
			return 0 // just being rewritten
		}
		if least < 0 || n < least {
			least = n
		}
	}
	return least
}

// waitForCounting waits until both tasks have counted on from where they are now.
func (j *job) waitForCounting(ctx context.Context, within time.Duration) error {
	var from int
	started := false
	return waitFor(ctx, within, func() (bool, string) {
		n := j.readCount()
		if n > 0 && (!started || n < from) {
			from, started = n, true
		}
		return started && n >= from+3, fmt.Sprintf("it stands still at %d", n)
	})
}

var columns = "--Format=State:|,RestartCnt:|,BatchHost:|,NodeList:|,Reason:|,exit_code:|,Comment:|"

func (j *job) readState(ctx context.Context) (state, error) {
	out, err := j.c.Exec(ctx, "ctl", "root", "squeue", "--noheader", "--states=all", "--jobs="+j.id, columns)
	if err != nil {
		return state{}, err
	}
	f := strings.SplitN(out, "|", 7)
	if len(f) != 7 {
		return state{}, fmt.Errorf("squeue: %q", out)
	}
	for i := range f {
		f[i] = strings.TrimSpace(f[i])
	}
	s := state{name: f[0], reason: f[4], exit: f[5], comment: strings.TrimSuffix(f[6], "|")}
	s.restarts, err = strconv.Atoi(f[1])
	if err != nil {
		return state{}, fmt.Errorf("squeue: %q", out)
	}
	s.nodes = expandHosts(f[3])
	// The batch script is on the first node of the list.
	return s, nil
}

// expandHosts turns "n[1-2]" or "n[1,3]" into names.
func expandHosts(list string) []string {
	inner, ok := strings.CutPrefix(list, "n[")
	if !ok {
		if strings.HasPrefix(list, "n") && list != "n/a" {
			return []string{list}
		}
		return nil
	}
	var all []string
	for part := range strings.SplitSeq(strings.TrimSuffix(inner, "]"), ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, _ := strconv.Atoi(first)
		to, _ := strconv.Atoi(last)
		for n := from; n <= to; n++ {
			all = append(all, fmt.Sprintf("n%d", n))
		}
	}
	return all
}

// startAgain has a job that waits start at once: by itself Slurm takes two minutes.
func (j *job) startAgain(ctx context.Context) error {
	return errors.Join(
		j.c.Scontrol(ctx, "update", "JobId="+j.id, "StartTime=now"),
		j.c.Scontrol(ctx, "release", j.id),
	)
}

// patience after a requeue: earlier, a node may still refuse the new run, because the node has
// revoked the job's credential (Slurm's).
const patience = 2500 * time.Millisecond

// waitUntilRequeued waits until the job may start again.
func (j *job) waitUntilRequeued(ctx context.Context) error {
	err := waitFor(ctx, 90*time.Second, func() (bool, string) {
		s, err := j.readState(ctx)
		return err == nil && s.waits(), fmt.Sprint(s, err)
	})
	return errors.Join(err, waitWhile(ctx, patience))
}

// slurmsOwn are lines of slurmd and srun about a job that is being killed. Without us
// they are there as well.
var slurmsOwn = regexp.MustCompile(`^(slurmstepd(-\S+)?: |srun: |\[[-0-9T:.]+\] )(error: \*\*\* |Job step aborted|got SIGCONT|forcing job termination|error: Timed out waiting for job step).*$`)

// slurmSays matches the beginning of lines that Slurm's programs, and ours, write into a job's log.
var slurmSays = regexp.MustCompile(`^(srun|slurmstepd(-\S+)?|singularity): `)

// checkOutput checks that the output of the job is the same as in an undisturbed run. Files are compared exactly. The
// log of a job that was rolled back repeats lines, at most rollbacks times; that log, and the log of a job with a run
// that ended by surprise, may have the script's messages about the end. noise are the messages of Slurm's programs
// about the fault.
func (j *job) checkOutput(ctx context.Context, rollbacks int, surprised bool) (noise string, err error) {
	if j.gpus {
		return j.rightLosses(ctx, rollbacks, surprised)
	}
	last := 0
	for rank := range 2 {
		text, err := os.ReadFile(j.c.Shared(fmt.Sprintf("%s/rank%d", j.folder, rank)))
		if err != nil {
			return "", err
		}
		var want strings.Builder
		want.WriteString("begin\n")
		n := strings.Count(string(text), "\n") - 2
		for i := 1; i <= n; i++ {
			fmt.Fprintln(&want, i)
		}
		fmt.Fprintf(&want, "end %d same\n", n)
		if string(text) != want.String() {
			return "", fmt.Errorf("rank%d: %s", rank, firstDifference(string(text), want.String()))
		}
		if rank == 1 && n != last {
			return "", fmt.Errorf("rank 0 counted to %d, rank 1 to %d", last, n)
		}
		last = n
		if at := j.readCount(); at != n {
			return "", fmt.Errorf("latest: %d, not %d", at, n)
		}
	}
	return j.rightLog(last, rollbacks, surprised)
}

// rightLosses is checkOutput for a training. The job's log has only the output of the script.
func (j *job) rightLosses(ctx context.Context, rollbacks int, surprised bool) (noise string, err error) {
	text, err := os.ReadFile(j.c.Shared(j.folder + "/losses"))
	if err != nil {
		return "", err
	}
	steps := strings.Count(string(text), "step ")
	calm := exec.CommandContext(ctx, "../../bin/proxyd", "run", "--soft", "2", "--", j.c.Shared("faults/bin/mlp"),
		"--ranks", "2", "--statistics", "--steps", strconv.Itoa(steps))
	want, err := calm.Output()
	if err != nil {
		return "", fmt.Errorf("an undisturbed training: %w", err)
	}
	if want := "begin\n" + string(want); string(text) != want {
		return "", fmt.Errorf("losses: %s", firstDifference(string(text), want))
	}
	return j.rightLog(0, rollbacks, surprised)
}

func (j *job) rightLog(last, rollbacks int, surprised bool) (noise string, err error) {
	text, err := os.ReadFile(j.c.Shared(j.folder + "/log"))
	if err != nil {
		return "", err
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	lines = slices.DeleteFunc(lines, slurmsOwn.MatchString)
	if len(lines) < 2 || lines[0] != "begin" || lines[len(lines)-1] != "rc 0" {
		return "", fmt.Errorf("log: begins %q, ends %q", lines[0], lines[len(lines)-1])
	}
	at := map[int]int{}
	back := map[int]int{}
	said := ""
	for i, l := range lines[1 : len(lines)-1] {
		var rank, n int
		if k, err := fmt.Sscanf(l, "%d %d", &rank, &n); k != 2 || err != nil || l != fmt.Sprintf("%d %d", rank, n) {
			if slurmSays.MatchString(l) {
				noise = l
				continue
			}
			said = fmt.Sprintf("log: line %d is %q", i+2, l)
			continue
		}
		switch {
		case n == at[rank]+1:
		case n <= at[rank]:
			back[rank]++
		default:
			return "", fmt.Errorf("log: line %d: rank %d says %d after %d", i+2, rank, n, at[rank])
		}
		at[rank] = n
	}
	if said != "" && !surprised && back[0]+back[1] == 0 {
		return "", errors.New(said)
	}
	for rank := range 2 {
		if at[rank] != last {
			return "", fmt.Errorf("log: rank %d ends at %d, not %d", rank, at[rank], last)
		}
		if back[rank] > rollbacks {
			return "", fmt.Errorf("log: rank %d goes back %d times in %d rollbacks", rank, back[rank], rollbacks)
		}
	}
	return noise, nil
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return fmt.Sprintf("line %d of %d is %q, not %q", i+1, len(g)-1, g[i], w[i])
		}
	}
	return fmt.Sprintf("%d lines, not %d", len(g)-1, len(w)-1)
}
