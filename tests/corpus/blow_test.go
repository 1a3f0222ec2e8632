//go:build corpus

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package corpus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// errMissed is the error of a blow that came after the job's end: the run tested nothing.
var errMissed = errors.New("the job ended before it was hit")

// runningJobs returns the jobs of a submission that run: of an array, some elements may have ended. The error is
// errMissed if all have ended as they should. A job that is held could not be restored after the blow before.
func runningJobs(jobs []job, want map[string]string) (running []job, err error) {
	for _, j := range jobs {
		switch {
		case j.state == "RUNNING":
			running = append(running, j)
		case j.hasEnded() && j.describeOutcome() != want[j.id]:
			return nil, fmt.Errorf("it ended by itself: %s", j)
		case j.state == "PENDING" && strings.Contains(j.comment, "singularity: held: "):
			return nil, fmt.Errorf("it was held: %s", j)
		}
	}
	if running == nil {
		return nil, errMissed
	}
	return running, nil
}

func TestRunningJobs(t *testing.T) {
	runs := job{id: "1", state: "RUNNING"}
	done := job{id: "2", state: "COMPLETED", exits: "0:0"}
	failed := job{id: "3", state: "FAILED", exits: "1:0"}
	held := job{id: "4", state: "PENDING", comment: "singularity: held: restore program batch on n7: Permission denied"}
	waits := job{id: "5", state: "PENDING", comment: "singularity: checkpoint 1 at 02:22:34 (requeue)"}
	want := map[string]string{"2": done.describeOutcome()}
	for name, test := range map[string]struct {
		jobs    []job
		running int
		says    string
	}{
		"it runs":              {[]job{runs, done}, 1, ""},
		"it has ended":         {[]job{done}, 0, errMissed.Error()},
		"it waits to be run":   {[]job{waits}, 0, errMissed.Error()},
		"it failed":            {[]job{runs, failed}, 0, "it ended by itself: "},
		"it cannot be resumed": {[]job{held}, 0, "it was held: "},
	} {
		running, err := runningJobs(test.jobs, want)
		if len(running) != test.running || (err == nil) != (test.says == "") || err != nil && !strings.HasPrefix(err.Error(), test.says) {
			t.Errorf("%s: %d run, %v", name, len(running), err)
		}
		if missed := errors.Is(err, errMissed); missed != (test.says == errMissed.Error()) {
			t.Errorf("%s: the blow was too late: %v", name, missed)
		}
	}
}

// strikeBlow does a single blow and returns when the job runs again.
func (r *run) strikeBlow(ctx context.Context, b blow) error {
	running, err := runningJobs(r.c.board.getJobs(r.id), r.want)
	if err != nil {
		return fmt.Errorf("before %s %w", b, err)
	}
	victim := running[b.pick%uint64(len(running))]
	nodes, err := r.c.Exec(ctx, "ctl", "root", "scontrol", "show", "hostnames", victim.nodes)
	if err != nil {
		return err
	}
	hosts := strings.Fields(nodes)
	at := hit{run: r, blow: b, victim: victim, hosts: hosts, host: hosts[b.pick>>32%uint64(len(hosts))]}
	if err := strikes[b.kind](ctx, at); err != nil {
		if b.kind != nodeFail && r.endedFirst(ctx, victim) { // that job has said so itself
			return errMissed
		}
		return fmt.Errorf("%s: %w", b, err)
	}
	if b.kind == grow || b.kind == shrink {
		return r.runsOn(ctx, b, victim)
	}
	err = r.waitUntilBack(ctx, victim)
	if b.kind == nodeFail { // also after an error: the lane is another program's next
		err = errors.Join(err, r.c.healNode(context.WithoutCancel(ctx), at.host))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", b, err)
	}
	return nil
}

// endedFirst tells whether a job could not be hit because the job had ended before. The board may not show the end yet, so
// endedFirst waits, but only for a moment: a job that ends later could not be hit for another reason.
func (r *run) endedFirst(ctx context.Context, victim job) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return r.c.board.waitFor(ctx, r.id, "end", func(jobs []job) (bool, error) {
		i := slices.IndexFunc(jobs, func(j job) bool { return j.id == victim.id })
		return jobs[i].state == "COMPLETED" && jobs[i].restarts == victim.restarts && jobs[i].describeOutcome() == r.want[victim.id], nil
	}) == nil
}

// hit is where a blow lands.
type hit struct {
	*run
	blow   blow
	victim job
	hosts  []string // the victim's nodes
	host   string   // the node of these that the blow has chosen
}

// strikes has a single function for each kind: the function makes Slurm end the victim's run.
var strikes = map[kind]func(context.Context, hit) error{
	requeue: strikeRequeue,
	move:    strikeMove,
	preempt: strikePreempt,
	fewer:   func(ctx context.Context, h hit) error { return moveWith(ctx, h, "TresPerNode=gres/gpu:1") },
	oneNode: func(ctx context.Context, h hit) error {
		all := strconv.Itoa(h.program.nodes * h.program.tasks)
		return moveWith(ctx, h, "NumNodes=1", "NumTasks="+all, "TasksPerNode="+all)
	},
	oneGPU: func(ctx context.Context, h hit) error {
		all := strconv.Itoa(h.program.nodes * h.program.tasks)
		return moveWith(ctx, h, "NumNodes=1", "NumTasks="+all, "TasksPerNode="+all, "TresPerNode=gres/gpu:1")
	},
	allGPUs: func(ctx context.Context, h hit) error {
		tasks := strconv.Itoa(h.program.tasks)
		return moveWith(ctx, h, "NumNodes="+strconv.Itoa(h.program.nodes), "NumTasks="+strconv.Itoa(h.program.nodes*h.program.tasks), "TasksPerNode="+tasks,
			"MinCPUsNode="+tasks, // for all tasks on one node Slurm has raised it by itself
			"TresPerNode=gres/gpu:"+strconv.Itoa(h.program.gpus))
	},
	grow: func(ctx context.Context, h hit) error {
		_, err := strikeLend(ctx, h)
		return err
	},
	shrink: func(ctx context.Context, h hit) error {
		lease, err := strikeLend(ctx, h)
		if err != nil {
			return err
		}
		// The delay puts the strike at a random moment within a step of the program.
		if err := waitWhile(ctx, time.Duration(h.blow.pick%1500)*time.Millisecond); err != nil {
			return err
		}
		if _, err := h.c.Exec(ctx, "ctl", "alice", "scancel", lease); err != nil {
			return err
		}
		return h.hasGPUs(ctx, h.program.gpus)
	},
	warn: strikeWarn,
	timeLimit: func(ctx context.Context, h hit) error {
		// The run was begun so that the tick comes at the planned moment. The strike is not long
		// before that: a job at its time limit starts no more steps.
		if err := waitWhile(ctx, time.Until(h.tick.Add(-tickJitter))); err != nil {
			return err
		}
		err := h.c.endTimeLimit(ctx, h.victim.nameForSlurm())
		if err != nil && strings.Contains(err.Error(), "already finished") {
			return errMissed
		}
		return err
	},
	nodeFail: strikeNodeFail,
	proxyd: func(ctx context.Context, h hit) error {
		if err := killProxyd(ctx, h); err != nil {
			return err
		}
		return strikeMove(ctx, h)
	},
	slurmd: func(ctx context.Context, h hit) error {
		if _, err := h.c.Run(ctx, "restart", h.host, "slurmd"); err != nil {
			return err
		}
		return strikeRequeue(ctx, h)
	},
}

func strikeRequeue(ctx context.Context, h hit) error {
	return h.c.Scontrol(ctx, "requeue", h.victim.nameForSlurm())
}

// strikeMove excludes the node that runs the batch script. A job of two nodes keeps its other node, and gets a third: the
// capsules may change places then.
func strikeMove(ctx context.Context, h hit) error { return moveWith(ctx, h) }

// moveWith is a move of a job that is changed while the job waits.
func moveWith(ctx context.Context, h hit, changes ...string) error {
	if err := h.c.Scontrol(ctx, "requeuehold", h.victim.nameForSlurm()); err != nil {
		return err
	}
	err := h.c.board.waitFor(ctx, h.id, "requeued and held", func(jobs []job) (bool, error) {
		i := slices.IndexFunc(jobs, func(j job) bool { return j.id == h.victim.id })
		return jobs[i].restarts > h.victim.restarts && jobs[i].state == "PENDING", nil
	})
	if err != nil {
		return err
	}
	_, strangers := h.c.laneNodes(h.lane)
	excluded := strings.Join(append(strangers, h.victim.batchHost), ",")
	update := append([]string{"update", "JobId=" + h.victim.nameForSlurm(), "ExcNodeList=" + excluded}, changes...)
	if err := h.c.Scontrol(ctx, update...); err != nil {
		return err
	}
	return h.c.Scontrol(ctx, "release", h.victim.nameForSlurm())
}

// strikeLend has another job of alice's lend the victim a GPU of its node, and returns that job when the victim has it.
func strikeLend(ctx context.Context, h hit) (lease string, err error) {
	lease, err = h.c.Exec(ctx, "ctl", "alice", "env", "--chdir=/tmp", "sbatch", "--parsable", "--job-name=lender", "--singularity-lease="+h.victim.nameForSlurm(),
		"--gpus-per-node=1", "--nodelist="+h.host, "--time=10", "--output=/dev/null", "--wrap=exec sleep 600")
	if err != nil {
		return "", err
	}
	h.leases = append(h.leases, lease)
	return lease, h.hasGPUs(ctx, h.program.gpus+1)
}

// hasGPUs waits until the victim has so many GPUs, its own and lent GPUs.
func (h hit) hasGPUs(ctx context.Context, want int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, fmt.Errorf("the job has not %d GPUs after a minute", want))
	defer cancel()
	for {
		said, err := h.c.Exec(ctx, "ctl", "alice", "singctl", "show", "--json", h.victim.nameForSlurm())
		if err != nil {
			return err
		}
		if now := lentNow.FindAllStringSubmatch(said, -1); len(now) > 0 && now[len(now)-1][1] == strconv.Itoa(want) {
			return nil
		}
		if err := waitWhile(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// lentNow is an event of a job's time line: how many GPUs the job has since another job lends it some, or has ended.
var lentNow = regexp.MustCompile(`"text": "job \d+ [^"]*: (\d+) now"`)

// runsOn checks that a blow has left the run of its victim alone.
func (r *run) runsOn(ctx context.Context, b blow, victim job) error {
	restarts, err := r.c.Exec(ctx, "ctl", "root", "squeue", "--noheader", "--states=all", "--jobs="+victim.nameForSlurm(), "--Format=RestartCnt,State")
	if err != nil {
		return err
	}
	if f := strings.Fields(restarts); len(f) != 2 || f[0] != strconv.Itoa(victim.restarts) || f[1] != "RUNNING" && f[1] != "COMPLETING" && f[1] != "COMPLETED" {
		return fmt.Errorf("%s: it was to run on, and squeue has restarts and state %q, not %d", b, restarts, victim.restarts)
	}
	return nil
}

// endLeases ends the jobs that have lent GPUs, and waits until their GPUs are free for the next program.
func (r *run) endLeases(ctx context.Context) error {
	for _, lease := range r.leases {
		_, _ = r.c.Exec(ctx, "ctl", "root", "scancel", lease) // the lending job ends with the borrower, too
		if err := r.c.board.waitFor(ctx, lease, "the end of a lease", func(jobs []job) (bool, error) { return allEnded(jobs), nil }); err != nil {
			return err
		}
	}
	return nil
}

// strikeWarn sends the signal that the job has asked for, as Slurm does some time before the time limit: to the job's
// steps, when the program has said that it is ready.
func strikeWarn(ctx context.Context, h hit) error {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("the program says nothing for a minute"))
	defer cancel()
	for h.isSilent() {
		if err := waitWhile(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	_, err := h.c.Exec(ctx, "ctl", "alice", "scancel", "--signal="+h.program.signal, h.victim.nameForSlurm())
	return err
}

// strikePreempt has bob want one of the job's nodes for himself, with a right to the node.
func strikePreempt(ctx context.Context, h hit) error {
	id, err := h.c.Exec(ctx, "ctl", "bob", "env", "--chdir=/tmp", "sbatch", "--parsable", "--job-name=premium", "--qos=premium", "--exclusive",
		"--nodelist="+h.host, "--time=1", "--output=/dev/null", "--wrap=sleep 1")
	if err != nil {
		return err
	}
	return h.c.board.waitFor(ctx, id, "the premium job", func(jobs []job) (bool, error) {
		return len(jobs) == 1 && jobs[0].hasEnded(), nil
	})
}

// isSilent tells whether a log of the job has no whole line yet. The log is looked at before the checkpoint is asked
// for: if a line is written meanwhile, isSilent is true all the same, and the comparison allows more.
func (r *run) isSilent() bool {
	logs, err := filepath.Glob(filepath.Join(r.c.Shared(r.folder), "log*"))
	if err != nil || len(logs) == 0 {
		return true
	}
	return slices.ContainsFunc(logs, func(path string) bool {
		text, err := os.ReadFile(path)
		return err != nil || !bytes.Contains(text, []byte("\n"))
	})
}

// strikeNodeFail has a checkpoint made, since only that can outlive a node, then cuts the power.
func strikeNodeFail(ctx context.Context, h hit) error {
	h.silent = h.silent || h.isSilent()
	// In an array, all elements that run on the node are captured.
	for _, j := range h.c.board.getJobs(h.id) {
		if j.state != "RUNNING" {
			continue
		}
		if _, err := h.c.Exec(ctx, "ctl", "alice", "singctl", "checkpoint", j.nameForSlurm()); err != nil {
			if strings.Contains(err.Error(), "has ended") || strings.Contains(err.Error(), "is not running") && h.endedFirst(ctx, j) {
				return errMissed
			}
			return err
		}
	}
	if err := waitWhile(ctx, time.Duration(h.blow.pick%1500)*time.Millisecond); err != nil {
		return err
	}
	if jobs := h.c.board.getJobs(h.id); !slices.ContainsFunc(jobs, func(j job) bool { return j.id == h.victim.id && j.state == "RUNNING" }) {
		return errMissed
	}
	if _, err := h.c.Run(ctx, "fail", h.host); err != nil {
		return err
	}
	// Slurm would find out by itself, after half a minute.
	return h.c.Scontrol(ctx, "update", "NodeName="+h.host, "State=DOWN", "Reason=power")
}

// healNode brings the power back and waits until Slurm uses the node again.
func (c *cluster) healNode(ctx context.Context, node string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("not back after a minute"))
	defer cancel()
	if _, err := c.Run(ctx, "heal", node); err != nil {
		return err
	}
	for {
		state, err := c.Exec(ctx, "ctl", "root", "sinfo", "-h", "-p", "main", "-n", node, "-o", "%T")
		if err != nil {
			return err
		}
		switch state {
		case "idle", "mixed", "allocated", "completing":
			return nil
		case "down":
			// Refused while the node has not reported; then the command is given again.
			_ = c.Scontrol(ctx, "update", "NodeName="+node, "State=RESUME")
		}
		if err := waitWhile(ctx, 500*time.Millisecond); err != nil {
			return fmt.Errorf("node %s: %w: %s", node, err, state)
		}
	}
}

var listener = regexp.MustCompile(`pid=(\d+)`)

// killProxyd kills the daemon alone. The process that listens on the daemon's socket is the daemon; the first
// processes of capsules are the same program.
func killProxyd(ctx context.Context, h hit) error {
	said, err := h.c.Exec(ctx, h.host, "root", "ss", "-xlpH", "src", "/run/singularity-slurm/spank.sock")
	if err != nil {
		return err
	}
	pid := listener.FindStringSubmatch(said)
	if pid == nil {
		return fmt.Errorf("no process listens on %s's spank.sock", h.host)
	}
	if _, err := h.c.Exec(ctx, h.host, "root", "kill", "-KILL", pid[1]); err != nil {
		return err
	}
	_, err = h.c.Run(ctx, "heal", h.host)
	return err
}

// waitUntilBack waits until every job of the submission runs again.
func (r *run) waitUntilBack(ctx context.Context, victim job) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 90*time.Second, errors.New("not back after 90 s"))
	defer cancel()
	return r.c.board.waitFor(ctx, r.id, "restart", func(jobs []job) (bool, error) {
		running := true
		for _, j := range jobs {
			hit := j.id != victim.id || j.restarts > victim.restarts
			switch {
			// A job that ends after its time and before slurmctld looks is called TIMEOUT, too.
			case j.hasEnded() && !hit && (j.describeOutcome() == r.want[j.id] || j.state == "TIMEOUT" && j.exits == "0:0"):
				return false, fmt.Errorf("%w: %s", errMissed, j)
			case j.hasEnded() && !hit:
				return false, fmt.Errorf("ended instead of starting again: %s", j)
			case j.hasEnded(), j.state == "RUNNING" && hit:
				continue
			}
			running = false
		}
		return running, r.startRequeued(ctx, jobs)
	})
}

// startRequeued tells Slurm to start requeued jobs now: by itself Slurm waits for two minutes.
func (r *run) startRequeued(ctx context.Context, jobs []job) error {
	for _, j := range jobs {
		if j.state != "PENDING" || j.restarts == 0 {
			continue
		}
		if strings.Contains(j.reason, "Held") {
			// A move's hold is released before this is called, but the board may be a moment behind.
			if since, ok := r.held[j.id]; !ok {
				r.held[j.id] = time.Now()
			} else if time.Since(since) > 5*time.Second {
				return fmt.Errorf("held: %s", j)
			}
			continue
		}
		delete(r.held, j.id)
		// Earlier, the node may still refuse the new run: "Job credential revoked".
		if time.Since(j.since) > 2*time.Second && time.Since(r.hurried[j.id]) > 4*time.Second {
			r.hurried[j.id] = time.Now()
			err := r.c.Scontrol(ctx, "update", "JobId="+j.nameForSlurm(), "StartTime=now", "TimeLimit=10")
			if err != nil && !strings.Contains(err.Error(), "no longer pending") { // Slurm was quicker
				return err
			}
		}
	}
	return nil
}

// waitWhile waits for a duration; the moments of a test are times.
func waitWhile(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
