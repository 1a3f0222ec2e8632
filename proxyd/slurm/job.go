// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurm

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Job is a job as squeue shows it.
type Job struct {
	ID        uint32
	ArrayJob  uint32 // 0: no array
	ArrayTask int    // -1: no array
	HetJob    uint32 // 0: not heterogeneous
	HetOffset int    // -1: not heterogeneous
	UID       uint32
	State     string // a single word; flags such as COMPLETING hide the base state
	Reason    string
	Restarts  int
	Requeue   bool     // may be requeued
	Batch     bool     // has a script: Slurm requeues no other jobs
	Nodes     []string // of this run, in Slurm's order
	BatchHost string
	Start     string    // "2026-11-20T16:38:51", as printed
	Submitted string    // as printed; a requeue changes the time
	Preempted string    // as printed; "" if the job is not preempted
	End       time.Time // of a run: when its time is up; zero without a limit

	nodeList string
}

// String is the job's name for Slurm's commands. A task's number alone could mean all tasks of the
// array.
func (j *Job) String() string {
	if j.ArrayTask >= 0 {
		return fmt.Sprintf("%d_%d", j.ArrayJob, j.ArrayTask)
	}
	return JobName(j.ID)
}

// JobName returns a job's number as Slurm's commands take it.
func JobName(id uint32) string { return strconv.FormatUint(uint64(id), 10) }

// Waits says whether the job is to run (again).
func (j *Job) Waits() bool {
	switch j.State {
	case "PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT":
		return true
	}
	return false
}

// Runs says whether the job's processes are meant to go on.
func (j *Job) Runs() bool {
	switch j.State {
	case "RUNNING", "SUSPENDED", "CONFIGURING", "RESIZING", "SIGNALING", "STOPPED":
		return true
	}
	return false
}

// Expired says whether a run's time is up: slurmctld ends the run at its next check, at most half a
// minute later, or as late as OverTimeLimit allows. Until then, slurmctld starts no steps.
func (j *Job) Expired() bool {
	return j.Runs() && !j.End.IsZero() && time.Until(j.End) < clockSkew
}

// clockSkew allows for different clocks of a node and slurmctld, and for the fraction of a second
// that squeue cuts off.
const clockSkew = 2 * time.Second

// Over says whether Slurm is done with the job, unless the job is requeued.
func (j *Job) Over() bool {
	switch j.State {
	case "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT":
		return true
	}
	return false
}

// columns are squeue's columns with Slurm's own texts, not users': a job's name, comment or command
// could imitate the columns beside it.
const columns = "JobID:|,UserID:|,State:|,Reason:|,RestartCnt:|,Requeue:|,BatchFlag:|,BatchHost:|,StartTime:|,PreemptTime:|," +
	"ArrayJobID:|,ArrayTaskID:|,HetJobID:|,HetJobOffset:|,NodeList:|,SubmitTime:|,EndTime:|"

var errJob = errors.New("squeue printed no job")

// parseJob finds a job in squeue's output for columns: for the number of an array, which is
// also the number of a task, squeue prints all tasks.
func parseJob(out, job string) (*Job, error) {
	var first *Job
	for line := range strings.Lines(strings.TrimSpace(out)) {
		j, err := parseLine(line)
		if err != nil {
			return nil, err
		}
		if j.String() == job || JobName(j.ID) == job {
			return j, nil
		}
		if first == nil {
			first = j
		}
	}
	if first == nil {
		return nil, errJob
	}
	return first, nil
}

func parseLine(line string) (*Job, error) {
	f := strings.Split(line, "|")
	if len(f) != strings.Count(columns, "|")+1 {
		return nil, fmt.Errorf("%w: %q", errJob, line)
	}
	for i := range f {
		f[i] = strings.TrimSpace(f[i])
		if f[i] == "N/A" || f[i] == "n/a" || f[i] == "(null)" {
			f[i] = ""
		}
	}
	id, err := strconv.ParseUint(f[0], 10, 32)
	if err != nil {
		return nil, fmt.Errorf("%w: %q", errJob, line)
	}
	uid, err := strconv.ParseUint(f[1], 10, 32)
	if err != nil {
		return nil, fmt.Errorf("%w: %q", errJob, line)
	}
	j := &Job{
		ID: uint32(id), UID: uint32(uid), State: f[2], Reason: f[3],
		Restarts: numberOr(f[4], 0), Requeue: f[5] == "1", Batch: f[6] != "" && f[6] != "0", BatchHost: f[7],
		Start: f[8], Preempted: f[9],
		ArrayTask: numberOr(f[11], -1), HetJob: uint32(numberOr(f[12], 0)), HetOffset: numberOr(f[13], -1),
		nodeList: f[14], Submitted: f[15],
	}
	if j.ArrayTask >= 0 {
		j.ArrayJob = uint32(numberOr(f[10], 0))
	}
	if j.HetJob == 0 {
		j.HetOffset = -1
	}
	// For a job without a limit squeue prints no time. Its times are local.
	j.End, _ = time.ParseInLocation("2006-01-02T15:04:05", f[16], time.Local)
	return j, nil
}

func numberOr(s string, otherwise int) int {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		return otherwise
	}
	return int(n)
}
