//go:build control

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// job is one of alice's trainings.
type job struct {
	*site
	id, name string
}

// state has the fields of a job in Slurm.
type state struct {
	is, reason, nodes, gres, comment string
	held                             bool
	restarts                         int
}

func (st state) String() string {
	return st.is + " on " + st.nodes + " with " + st.gres + ", " + strconv.Itoa(st.restarts) + " restarts, reason " + st.reason + ", comment " + st.comment
}

// submitTraining submits a training, which must have GPUs.
func (s *site) submitTraining(name, options string) *job {
	s.Helper()
	folder := s.cluster.Shared("home/alice/")
	for _, ending := range []string{".losses", ".log", ".stop"} {
		if err := os.RemoveAll(folder + "/" + name + ending); err != nil {
			s.Fatal(err)
		}
	}
	return &job{s, s.runOn("ctl", "alice", "sbatch --parsable --time=10 --job-name="+name+" "+options+" train.sh"), name}
}

// currentState returns the job's state in Slurm.
func (j *job) currentState() state {
	j.Helper()
	fields := map[string]string{}
	for _, line := range strings.Split(j.runOn("ctl", "root", "scontrol show job "+j.id), "\n") {
		for _, word := range strings.Fields(line) {
			key, value, _ := strings.Cut(word, "=")
			if _, again := fields[key]; !again {
				fields[key] = value
			}
		}
		if comment, ok := strings.CutPrefix(strings.TrimSpace(line), "Comment="); ok {
			fields["Comment"] = comment
		}
	}
	restarts, _ := strconv.Atoi(fields["Restarts"])
	return state{
		fields["JobState"], fields["Reason"], fields["NodeList"],
		strings.Replace(fields["TresPerNode"], "gres:", "gres/", 1), // in 22.05, and in later releases
		fields["Comment"],
		fields["Priority"] == "0", restarts,
	}
}

// waitForState waits until the job is in a state.
func (j *job) waitForState(is string) state {
	j.Helper()
	return j.waitUntil("is "+is, func(st state) bool { return st.is == is })
}

// waitUntil waits until ok accepts the state of the job in Slurm.
func (j *job) waitUntil(what string, ok func(state) bool) state {
	j.Helper()
	var st state
	j.waitFor("job "+j.name+" "+what, func() (bool, string) {
		st = j.currentState()
		return ok(st), st.String()
	})
	return st
}

// waitForProgress waits until the job runs and has made progress.
func (j *job) waitForProgress() {
	j.Helper()
	was := len(j.readLosses())
	j.waitUntil("gets on", func(st state) bool { return st.is == "RUNNING" && len(j.readLosses()) > was })
}

// readLosses returns the losses that the job has written.
func (j *job) readLosses() []byte {
	text, _ := os.ReadFile(j.cluster.Shared("home/alice", j.name+".losses"))
	return text
}

// stop lets the job come to its end.
func (j *job) stop() {
	j.Helper()
	if err := os.WriteFile(j.cluster.Shared("home/alice", j.name+".stop"), nil, 0o644); err != nil {
		j.Fatal(err)
	}
}

// least is how many steps a job must have done before its losses are compared.
const least = 10

// endAndCompare lets the job come to its end, and compares its output with the calm run, bit for bit: after all that
// was done to the job, no step is missing, and no step is there twice.
func (j *job) endAndCompare() state {
	j.Helper()
	j.waitFor("job "+j.name+" has done something", func() (bool, string) { return bytes.Count(j.readLosses(), []byte("\n")) >= least, "" })
	j.stop()
	st := j.waitForState("COMPLETED")
	got := j.readLosses()
	calm, lines := j.calm(len(got)), bytes.Count(got, []byte("\n"))
	if !bytes.Equal(calm, got) || lines < least {
		at := 0
		for at < len(got) && got[at] == calm[at] {
			at++
		}
		j.Errorf("job %s: after step %d its losses are not those of the run that nothing disturbed: …%.200q", j.name, bytes.Count(got[:at], []byte("\n")), got[at:])
	}
	j.Logf("job %s: %d steps, bit for bit; %d restarts", j.name, lines, st.restarts)
	return st
}

// act is an action in the output of singctl history --json.
type act struct {
	ID                             int
	Kind, State, Who, Why, Problem string
	Created, Ended                 time.Time
	Lines                          []struct {
		At          time.Time
		Step, State string
	}
}

// describeCourse returns how an action went on, in seconds since a moment, and how long its checkpoint took.
func (j *job) describeCourse(a act, since time.Time) (steps string, checkpoint time.Duration) {
	j.Helper()
	if err := json.Unmarshal([]byte(j.runOn("ctl", "alice", "singctl history --json --action "+strconv.Itoa(a.ID))), &a); err != nil {
		j.Fatal(err)
	}
	var all []string
	for i, l := range a.Lines {
		all = append(all, fmt.Sprintf("%s %s %.2f", l.Step, l.State, l.At.Sub(since).Seconds()))
		if l.Step == "park" && checkpoint == 0 {
			checkpoint = l.At.Sub(a.Lines[i-1].At)
		}
	}
	return strings.Join(all, ", "), checkpoint
}

// standing is preemptd's count for a job that has not ended.
type standing struct {
	Tier, Action, Waits    string
	Promised, Fraction     float64
	Counted                float64
	Requested, GPUs, Least int
}

// readHistory returns the actions on the job, oldest first, and preemptd's count for the job.
func (j *job) readHistory() (acts []act, stands standing) {
	j.Helper()
	var reply struct {
		Actions  []act
		Standing standing
	}
	if err := json.Unmarshal([]byte(j.runOn("ctl", "alice", "singctl history --json "+j.id)), &reply); err != nil {
		j.Fatal(err)
	}
	for i := len(reply.Actions) - 1; i >= 0; i-- {
		acts = append(acts, reply.Actions[i])
	}
	return acts, reply.Standing
}

// listActs returns the actions that were done to the job. A job may be at work before the action that moved it has come to its end.
func (j *job) listActs() (acts []act) {
	j.Helper()
	j.waitFor("nothing is under way with job "+j.name, func() (bool, string) {
		acts, _ = j.readHistory()
		return !slices.ContainsFunc(acts, func(a act) bool { return a.Ended.IsZero() }), fmt.Sprintf("%+v", acts)
	})
	return acts
}

// checkActs checks that exactly these actions were done to the job, by which users, and came to their end.
func (j *job) checkActs(want ...string) {
	j.Helper()
	var got []string
	for _, a := range j.listActs() {
		said := a.Kind + " by " + a.Who
		if a.State != "done" {
			said += " " + a.State
		}
		got = append(got, said)
	}
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		j.Errorf("done to job %s: %q, want %q", j.name, got, want)
	}
}
