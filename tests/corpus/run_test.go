//go:build corpus

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package corpus

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// alice's user and group number, on every host.
const aliceID = 1001

// run is a single submission of a program, in a folder of its own.
type run struct {
	c       *cluster
	program program
	lane    int
	folder  string            // below /shared
	id      string            // of the job
	want    map[string]string // outcomes by job, where they are known
	hurried map[string]time.Time
	held    map[string]time.Time // since when a job is, that should not be
	silent  bool                 // a checkpoint to fall back to was made before the log had its first line
	tick    time.Time            // when a time limit is enforced, where that is the first blow
	leases  []string             // jobs that lend GPUs to this job
}

// ending has the results of a run.
type ending struct {
	took     time.Duration // from start to end
	outcomes []string      // by element
	nodes    int           // different nodes that the batch script was seen on
	log      string        // Slurm's own account, for failures
	proxyds  []string      // lines of all proxyds' logs about the jobs, by time, for failures
	hadEnded bool          // a script ended while its job was requeued, so Slurm ran the job again from its beginning, as the rule is
	silent   bool          // a checkpoint to fall back to was made before the log had its first line
}

// runProgram submits the program, strikes the blows and waits for its end. The first blow's
// moment is a fraction of the time of alone, the undisturbed run.
func (c *cluster) runProgram(ctx context.Context, p program, lane int, folder string, options []string, blows []blow, alone ending) (ending, error) {
	r := &run{c: c, program: p, lane: lane, folder: folder, want: map[string]string{}, hurried: map[string]time.Time{}, held: map[string]time.Time{}}
	ctx, cancel := context.WithTimeoutCause(ctx, 4*time.Minute+4*alone.took, errors.New("out of time"))
	defer cancel()
	if len(blows) > 0 && blows[0].kind == timeLimit {
		const startUp = 1500 * time.Millisecond
		lead := time.Duration(blows[0].at*float64(alone.took)) + startUp
		for time.Until(r.tick) < lead {
			var err error
			if r.tick, err = c.nextTick(ctx, lane); err != nil {
				return ending{}, err
			}
			if lead > tickPeriod { // a slow machine
				r.tick = r.tick.Add(lead.Truncate(tickPeriod))
			}
		}
		if err := waitWhile(ctx, time.Until(r.tick.Add(-lead))); err != nil {
			return ending{}, err
		}
	}
	if err := r.submitProgram(ctx, options); err != nil {
		return ending{}, err
	}
	e, err := r.followToEnd(ctx, blows, alone)
	e.silent, e.proxyds = r.silent, r.proxydLines()
	e.hadEnded = r.beganAnew(e.proxyds)
	if err != nil {
		// After any error, the lane must be free for the next program.
		clear := context.WithoutCancel(ctx)
		e.log, _ = c.Exec(clear, "ctl", "root", "sacct", "-D", "-n", "-P", "-j", r.id, "-o", "JobID,State,ExitCode,NodeList,Start,End")
		_, _ = c.Exec(clear, "ctl", "root", "scancel", r.id)
		clear, cancel := context.WithTimeoutCause(clear, 40*time.Second, errors.New("does not end"))
		defer cancel()
		err = errors.Join(err, c.board.waitFor(clear, r.id, "scancel", func(jobs []job) (bool, error) {
			return allEnded(jobs), nil
		}))
	}
	clear, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), time.Minute, errors.New("does not end"))
	defer cancel()
	return e, errors.Join(err, r.endLeases(clear))
}

// proxydLines returns the lines of the lane's proxyds about the submission's jobs, by time.
func (r *run) proxydLines() []string {
	nodes, _ := r.c.laneNodes(r.lane)
	var log []string
	for _, node := range nodes {
		if text, err := os.ReadFile(r.c.Log(node, "proxyd")); err == nil {
			log = slices.AppendSeq(log, strings.Lines(string(text)))
		}
	}
	slices.Sort(log) // each line begins with its time
	jobs := r.c.board.getJobs(r.id)
	return slices.DeleteFunc(log, func(line string) bool {
		m := jobOf.FindStringSubmatch(strings.TrimSpace(line))
		return m == nil || !slices.ContainsFunc(jobs, func(j job) bool { return j.id == m[1] })
	})
}

// beganAnew tells whether a job of the submission began anew because its script ended in the moment of a requeue.
func (r *run) beganAnew(log []string) bool {
	for _, j := range r.c.board.getJobs(r.id) {
		if beganAnew(log, j.id, r.want[j.id]) {
			return true
		}
	}
	return false
}

func (r *run) submitProgram(ctx context.Context, options []string) error {
	folder := r.c.Shared(r.folder)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	if err := os.Chown(folder, aliceID, aliceID); err != nil {
		return err
	}
	_, strangers := r.c.laneNodes(r.lane)
	args := []string{"env", "--chdir=" + filepath.Join("/shared", r.folder), "sbatch", "--parsable", "--time=10", "--requeue",
		// A job that is started from scratch instead of restored says its first line
		// again. In a log that Slurm empties for each run that would not be seen.
		"--open-mode=append"}
	if len(strangers) > 0 {
		args = append(args, "--exclude="+strings.Join(strangers, ","))
	}
	args = append(args, options...)
	id, err := r.c.Exec(ctx, "ctl", "alice", append(args, "/shared/corpus/programs/"+r.program.name+".sh")...)
	r.id = id
	return err
}

func (r *run) followToEnd(ctx context.Context, blows []blow, alone ending) (e ending, err error) {
	nodes := map[string]bool{}
	seen := func(jobs []job) {
		for _, j := range jobs {
			if j.batchHost != "" {
				nodes[j.id+" "+j.batchHost] = true
			}
		}
	}
	err = r.c.board.waitFor(ctx, r.id, "start", func(jobs []job) (bool, error) {
		started := len(jobs) == r.program.elements
		for _, j := range jobs {
			started = started && (j.state == "RUNNING" || j.hasEnded())
		}
		seen(jobs)
		return started, nil
	})
	if err != nil {
		return e, err
	}
	began := time.Now()
	for i, j := range r.c.board.getJobs(r.id) {
		if i < len(alone.outcomes) {
			r.want[j.id] = alone.outcomes[i]
		}
	}
	for _, b := range blows {
		if b.kind != timeLimit { // a blow by the time limit comes with the tick
			if err := waitWhile(ctx, time.Duration(b.at*float64(alone.took))); err != nil {
				return e, err
			}
		}
		if err := r.strikeBlow(ctx, b); err != nil {
			return e, err
		}
		seen(r.c.board.getJobs(r.id))
	}
	err = r.c.board.waitFor(ctx, r.id, "end", func(jobs []job) (bool, error) {
		seen(jobs)
		return allEnded(jobs), r.startRequeued(ctx, jobs)
	})
	if err != nil {
		return e, err
	}
	e.took = time.Since(began)
	for _, j := range r.c.board.getJobs(r.id) {
		e.outcomes = append(e.outcomes, j.describeOutcome())
	}
	e.nodes = len(nodes) - r.program.elements + 1
	return e, r.allHit(ctx)
}

// allHit is errMissed if a blow was a requeue of a job that had just ended: Slurm runs that
// again from its beginning, as requested.
func (r *run) allHit(ctx context.Context) error {
	said, err := r.c.Exec(ctx, "ctl", "root", "sacct", "-D", "-X", "-n", "-P", "-j", r.id, "-o", "JobID,State,ExitCode")
	if err != nil {
		return err
	}
	want := map[string]string{}
	for _, j := range r.c.board.getJobs(r.id) {
		want[j.nameForSlurm()] = r.want[j.id]
	}
	if ranAfterItsEnd(said, want) {
		return errMissed
	}
	return nil
}

func allEnded(jobs []job) bool {
	for _, j := range jobs {
		if !j.hasEnded() {
			return false
		}
	}
	return true
}

// compareRuns compares a run with the undisturbed run: how the job ended and all that the job wrote.
func (c *cluster) compareRuns(want, got ending, wantFolder, gotFolder string, blows []blow) error {
	if w, g := strings.Join(want.outcomes, ", "), strings.Join(got.outcomes, ", "); w != g {
		return fmt.Errorf("ended with %s, undisturbed with %s", g, w)
	}
	back := never
	for _, b := range blows {
		if b.kind.rolledBack() {
			back = max(back, notToZero)
		}
		if slices.Contains([]kind{move, fewer, oneNode, oneGPU, allGPUs}, b.kind) && got.nodes < 2 {
			return errors.New("ran on one node only")
		}
	}
	if got.silent && back != never {
		back = anywhere
	}
	found, err := sameFolder(c.Shared(wantFolder), c.Shared(gotFolder), back)
	if err == nil && len(found) > 0 {
		err = errors.New(strings.Join(found, "; "))
	}
	return err
}
