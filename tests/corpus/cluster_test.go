//go:build corpus

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package corpus

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/tests/mini"
)

// cluster is the cluster that all programs share, cut into lanes of nodes.
type cluster struct {
	mini.Cluster
	lanes   int
	free    chan int // lanes without a program
	board   board
	site    site
	missing map[string]error // why software of contrib/cuda-software is missing, by its name in programs
}

// laneNodes are the nodes of a lane, and strangers the nodes of all other lanes.
func (c *cluster) laneNodes(lane int) (own, strangers []string) {
	for n := range c.lanes * nodesPerLane {
		node := fmt.Sprintf("n%d", n+1)
		if n/nodesPerLane == lane {
			own = append(own, node)
		} else {
			strangers = append(strangers, node)
		}
	}
	return own, strangers
}

// raiseCluster brings the cluster up for the whole test.
func raiseCluster(t *testing.T, name string, lanes int, up []string) *cluster {
	t.Helper()
	c := &cluster{Cluster: mini.Cluster{Program: *mcProgram, Name: name}, lanes: lanes, free: make(chan int, lanes), board: board{jobs: map[string]job{}, changed: make(chan struct{})}, site: site{has: map[string]error{}}, missing: map[string]error{}}
	for lane := range lanes {
		c.free <- lane
	}
	_, _ = c.Run(t.Context(), "down")
	args := append([]string{"--nodes", strconv.Itoa(lanes * nodesPerLane)}, up...)
	if *programsDir == "programs" {
		args = append(args, "--with-corpus")
	}
	if *programsDir == "devices" {
		for _, s := range []struct{ needs, what, option string }{
			{"cuda-software", "pytorch", "--with-torch-cuda"}, {"cuda-llama", "llama", "--with-llama"},
		} {
			if _, err := exec.CommandContext(t.Context(), "../../contrib/cuda-software/fetch", s.what).Output(); err != nil {
				c.missing[s.needs] = fmt.Errorf("contrib/cuda-software/fetch %s: %w", s.what, err)
				continue
			}
			args = append(args, s.option)
		}
	}
	if _, err := c.Run(t.Context(), "up", args...); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	watched := make(chan struct{})
	go func() { defer close(watched); c.board.followJobs(ctx, c) }()
	t.Cleanup(func() {
		stop()
		<-watched
		if *keep == "" {
			if _, err := c.Run(context.Background(), "down"); err != nil {
				t.Error(err)
			}
		}
	})
	return c
}

// job has Slurm's facts of a single job, or of a single element of an array.
type job struct {
	id, array, element      string
	state, reason, comment  string
	batchHost, nodes, exits string
	restarts                int
	since                   time.Time // in this state, as far as was seen
}

// nameForSlurm is the job's name for Slurm's commands: the number alone can be that of a whole array.
func (j job) nameForSlurm() string {
	if j.array != "" && j.element != "" {
		return j.array + "_" + j.element
	}
	return j.id
}

// hasEnded reports whether the job is in a state that does not change any more. The states after a time limit, after a
// node's failure, and of a run that Slurm ended before the restore, may be followed by a requeue.
func (j job) hasEnded() bool {
	switch j.state {
	case "COMPLETED", "CANCELLED":
		return true
	case "FAILED":
		return j.restarts == 0 || time.Since(j.since) > 20*time.Second
	case "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY":
		return time.Since(j.since) > 20*time.Second
	}
	return false
}

// describeOutcome returns the state and the exit codes of a job, as a user sees them.
func (j job) describeOutcome() string { return j.state + " " + j.exits }

func (j job) String() string {
	s := fmt.Sprintf("job %s %s on %s, %d restarts", j.id, j.state, j.nodes, j.restarts)
	if j.reason != "" && j.reason != "None" {
		s += ", reason " + j.reason
	}
	if j.comment != "" {
		s += ", comment " + j.comment
	}
	return s
}

// board has the state of all jobs. A single process reads it several times a second for
// everyone: as many processes as there are lanes would cost more than the jobs.
type board struct {
	mu      sync.Mutex
	jobs    map[string]job
	changed chan struct{} // closed at every change
}

func (b *board) followJobs(ctx context.Context, c *cluster) {
	for ctx.Err() == nil { // again, if the process ends too early
		cmd := exec.CommandContext(ctx, *mcProgram, "exec", "ctl", "--name", c.Name, "--", "sh", "-c",
			"trap 'exit 0' PIPE; while echo; do scontrol show job -o 2>/dev/null; sleep 0.25; done")
		out, err := cmd.StdoutPipe()
		if err != nil || cmd.Start() != nil {
			return
		}
		// The command on the host outlives our end of the pipe, and holds the pipe open until
		// a write finds no reader.
		stop := context.AfterFunc(ctx, func() { out.Close() })
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if j, ok := parseJob(lines.Text()); ok {
				b.putJob(j)
			}
		}
		stop()
		cmd.Wait()
	}
}

func (b *board) putJob(j job) {
	b.mu.Lock()
	defer b.mu.Unlock()
	j.since = time.Now()
	if old := b.jobs[j.id]; old.state == j.state && old.restarts == j.restarts {
		j.since = old.since
	}
	b.jobs[j.id] = j
	close(b.changed)
	b.changed = make(chan struct{})
}

var jobField = regexp.MustCompile(`(?:^| )([A-Za-z/:_]+)=`)

// parseJob reads a line of scontrol show job -o: KEY=value, where a value may have spaces.
func parseJob(line string) (job, bool) {
	if !strings.HasPrefix(line, "JobId=") {
		return job{}, false
	}
	f := map[string]string{}
	at := jobField.FindAllStringSubmatchIndex(line, -1)
	for i, m := range at {
		end := len(line)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		f[line[m[2]:m[3]]] = strings.TrimSpace(line[m[1]:end])
	}
	restarts, _ := strconv.Atoi(f["Restarts"])
	return job{
		id: f["JobId"], array: f["ArrayJobId"], element: f["ArrayTaskId"], state: f["JobState"], reason: f["Reason"],
		comment:   strings.TrimSpace(f["Comment"] + " " + f["AdminComment"]),
		batchHost: f["BatchHost"], nodes: f["NodeList"], exits: f["ExitCode"], restarts: restarts,
	}, true
}

// getJobs returns the jobs of a single submission, elements of an array in their order.
func (b *board) getJobs(id string) []job {
	b.mu.Lock()
	defer b.mu.Unlock()
	var found []job
	for _, j := range b.jobs {
		if j.id == id || j.array == id {
			found = append(found, j)
		}
	}
	slices.SortFunc(found, func(a, b job) int { return strings.Compare(a.element, b.element) })
	return found
}

// waitFor waits for a condition on the jobs of a single submission. Its error tells the state
// they are in when the time is up.
func (b *board) waitFor(ctx context.Context, id, what string, ok func([]job) (bool, error)) error {
	for {
		b.mu.Lock()
		changed := b.changed
		b.mu.Unlock()
		jobs := b.getJobs(id)
		if done, err := ok(jobs); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w: %v", what, context.Cause(ctx), jobs)
		case <-changed:
		case <-time.After(time.Second): // some conditions depend on the time too
		}
	}
}

// tickPeriod is how often slurmctld looks for jobs at their time limit: every 30 seconds from
// some moment on. A job that is to be hit in its middle has to be there then.
const tickPeriod = 30 * time.Second

// tickJitter is how much earlier than expected a look may come, with room for the command
// that must be through before the tick: slurmctld counts in whole seconds.
const tickJitter = 2200 * time.Millisecond

var exhausted = regexp.MustCompile(`(?m)^\[([0-9T:.-]+)\] Time limit exhausted for JobId=(\d+)`)

// endTimeLimit lets the time of a running job be over now. Slurm refuses that in the very second of the job's start.
func (c *cluster) endTimeLimit(ctx context.Context, job string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("Slurm takes no time limit"))
	defer cancel()
	for {
		err := c.Scontrol(ctx, "update", "JobId="+job, "EndTime=now")
		if err == nil || !strings.Contains(err.Error(), "Invalid time") {
			return err
		}
		if waitWhile(ctx, 300*time.Millisecond) != nil {
			return err
		}
	}
}

// nextTick lets the time of a job run out, in a lane that is free, and returns when
// slurmctld will look again. The period is not so exact that an older answer would do.
func (c *cluster) nextTick(ctx context.Context, lane int) (time.Time, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 2*time.Minute, errors.New("no time limit was enforced"))
	defer cancel()
	own, _ := c.laneNodes(lane)
	id, err := c.Exec(ctx, "ctl", "alice", "env", "--chdir=/tmp", "sbatch", "--parsable", "--nodelist="+own[0], "--time=10", "--output=/dev/null", "--wrap=sleep 100")
	if err != nil {
		return time.Time{}, err
	}
	err = c.board.waitFor(ctx, id, "start", func(jobs []job) (bool, error) {
		return len(jobs) == 1 && jobs[0].state == "RUNNING", nil
	})
	if err == nil {
		err = c.endTimeLimit(ctx, id)
	}
	if err == nil {
		err = c.board.waitFor(ctx, id, "time limit", func(jobs []job) (bool, error) { return jobs[0].state != "RUNNING", nil })
	}
	if err != nil {
		return time.Time{}, err
	}
	log, err := os.ReadFile(c.Log("ctl", "slurmctld"))
	if err != nil {
		return time.Time{}, err
	}
	for _, m := range exhausted.FindAllStringSubmatch(string(log), -1) {
		if m[2] == id {
			at, err := time.ParseInLocation("2006-01-02T15:04:05.000", m[1], time.Local)
			return at.Add(tickPeriod), err
		}
	}
	return time.Time{}, fmt.Errorf("slurmctld.log does not say when job %s was out of time", id)
}
