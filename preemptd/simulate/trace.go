// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"bufio"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// Job is a job of a trace.
type Job struct {
	ID       sdk.JobID
	Submit   time.Duration // since the trace began
	Duration time.Duration // on all of its GPUs
	GPUs     int
	Nodes    int
	MinGPUs  int // the job can be shrunk to so many; GPUs if it cannot
	MaxGPUs  int // the job can grow to so many; GPUs if it cannot
	QOS      string
	User     string
	Account  string
	Limit    time.Duration // of its time; 0: no limit
	Rigid    bool          // no capsule: the job cannot be preempted
	Memory   float64       // that a rank takes, of a GPU's; 0: little
	Alike    float64       // part of that memory that all ranks hold alike
	Meetings float64       // of its ranks in a mini-batch, which policies are not told; 0: as many as these assume
}

// A trace in CSV has a line of column names and then a line for each job, in any order:
//
//	id       number, unique
//	submit   seconds since the beginning of the trace
//	duration seconds on all of the job's GPUs
//	gpus     of all nodes together
//	nodes    1 unless said
//	min_gpus the job can be shrunk to so many; gpus unless said
//	max_gpus the job can grow to so many; gpus unless said
//	qos user account  texts
//	limit    seconds
//	rigid    "true": the job cannot be preempted
//	memory   part of a GPU's memory that each rank takes, 0 to 1; 0 unless said
//	alike    part of that which the ranks hold alike, 0 to 1; 0 unless said
//	meetings of the ranks, in collectives, for each mini-batch; 2 unless said
//
// The first four must be there. Columns of other names are an error.
var columns = map[string]func(j *Job, text string) error{
	"id":       func(j *Job, t string) error { return parseNumber(&j.ID, t) },
	"submit":   func(j *Job, t string) error { return parseSeconds(&j.Submit, t) },
	"duration": func(j *Job, t string) error { return parseSeconds(&j.Duration, t) },
	"gpus":     func(j *Job, t string) error { return parseNumber(&j.GPUs, t) },
	"nodes":    func(j *Job, t string) error { return parseNumber(&j.Nodes, t) },
	"min_gpus": func(j *Job, t string) error { return parseNumber(&j.MinGPUs, t) },
	"max_gpus": func(j *Job, t string) error { return parseNumber(&j.MaxGPUs, t) },
	"qos":      func(j *Job, t string) error { j.QOS = t; return nil },
	"user":     func(j *Job, t string) error { j.User = t; return nil },
	"account":  func(j *Job, t string) error { j.Account = t; return nil },
	"limit":    func(j *Job, t string) error { return parseSeconds(&j.Limit, t) },
	"rigid":    func(j *Job, t string) (err error) { j.Rigid, err = strconv.ParseBool(t); return err },
	"memory":   func(j *Job, t string) (err error) { j.Memory, err = strconv.ParseFloat(t, 64); return err },
	"alike":    func(j *Job, t string) (err error) { j.Alike, err = strconv.ParseFloat(t, 64); return err },
	"meetings": func(j *Job, t string) (err error) { j.Meetings, err = strconv.ParseFloat(t, 64); return err },
}

// Read reads a trace, in CSV or as sacct writes it, by the first line. skipped counts jobs
// that are of no interest: they never ran or had no GPU.
func Read(r io.Reader) (jobs []Job, skipped int, err error) {
	buffered := bufio.NewReaderSize(r, 1<<16)
	start, err := buffered.Peek(1 << 10)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, 0, fmt.Errorf("trace: %w", err)
	}
	names, _, _ := strings.Cut(string(start), "\n")
	if strings.Contains(names, "|") {
		return ReadSacct(buffered)
	}
	jobs, err = ReadCSV(buffered)
	return jobs, 0, err
}

// ReadCSV reads a trace. Jobs come back in order of their submission.
func ReadCSV(r io.Reader) ([]Job, error) {
	return readTrace(csv.NewReader(r), func(names []string) error {
		for _, name := range names {
			if columns[name] == nil {
				return fmt.Errorf("there is no column %q", name)
			}
		}
		for _, must := range []string{"id", "submit", "duration", "gpus"} {
			if !slices.Contains(names, must) {
				return fmt.Errorf("column %q is missing", must)
			}
		}
		return nil
	}, func(names, fields []string) (j Job, keep bool, err error) {
		for i, text := range fields {
			if text == "" {
				continue
			}
			if err := columns[names[i]](&j, text); err != nil {
				return j, false, fmt.Errorf("%s %q: %w", names[i], text, err)
			}
		}
		return j, true, nil
	})
}

// readTrace reads lines of fields under a line of names.
func readTrace(lines *csv.Reader, check func(names []string) error, job func(names, fields []string) (Job, bool, error)) ([]Job, error) {
	names, err := lines.Read()
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	if err := check(names); err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	var jobs []Job
	for {
		fields, err := lines.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("trace: %w", err)
		}
		j, keep, err := job(names, fields)
		if err == nil && keep {
			err = j.fillDefaults()
		}
		if err != nil {
			line, _ := lines.FieldPos(0)
			return nil, fmt.Errorf("trace: line %d: %w", line, err)
		}
		if keep {
			jobs = append(jobs, j)
		}
	}
	return sortJobs(jobs)
}

// sortJobs sorts jobs, and refuses two jobs with the same id.
func sortJobs(jobs []Job) ([]Job, error) {
	slices.SortFunc(jobs, func(a, b Job) int { return cmp.Compare(a.ID, b.ID) })
	for i := 1; i < len(jobs); i++ {
		if jobs[i].ID == jobs[i-1].ID {
			return nil, fmt.Errorf("trace: job %d is there twice", jobs[i].ID)
		}
	}
	slices.SortStableFunc(jobs, func(a, b Job) int { return cmp.Compare(a.Submit, b.Submit) })
	return jobs, nil
}

// fillDefaults fills in fields that were left out, and refuses impossible values.
func (j *Job) fillDefaults() error {
	if j.Nodes == 0 {
		j.Nodes = 1
	}
	if j.MinGPUs == 0 {
		j.MinGPUs = j.GPUs
	}
	if j.MaxGPUs == 0 {
		j.MaxGPUs = j.GPUs
	}
	switch {
	case j.ID <= 0:
		return fmt.Errorf("id %d", j.ID)
	case j.Submit < 0 || j.Duration <= 0 || j.Limit < 0:
		return fmt.Errorf("job %d: submitted at %v for %v, limit %v", j.ID, j.Submit, j.Duration, j.Limit)
	case j.GPUs < 1 || j.Nodes < 1 || j.GPUs%j.Nodes != 0:
		return fmt.Errorf("job %d: %s on %s", j.ID, sdk.CountOf(j.GPUs, "GPU"), sdk.CountOf(j.Nodes, "node"))
	case j.MinGPUs < 1 || j.MinGPUs > j.GPUs:
		return fmt.Errorf("job %d: shrinks to %d of %s", j.ID, j.MinGPUs, sdk.CountOf(j.GPUs, "GPU"))
	case !(j.Memory >= 0 && j.Memory <= 1 && j.Alike >= 0 && j.Alike <= 1):
		return fmt.Errorf("job %d: memory %g, alike %g: want parts from 0 to 1", j.ID, j.Memory, j.Alike)
	case !(j.Meetings >= 0 && j.Meetings <= 1000):
		return fmt.Errorf("job %d: meetings %g: want 0 to 1000", j.ID, j.Meetings)
	case j.MaxGPUs < j.GPUs:
		return fmt.Errorf("job %d: grows to %d, and has %s", j.ID, j.MaxGPUs, sdk.CountOf(j.GPUs, "GPU"))
	}
	return nil
}

func parseNumber[N ~int | ~int64](n *N, text string) error {
	v, err := strconv.ParseInt(text, 10, 64)
	*n = N(v)
	return err
}

func parseSeconds(d *time.Duration, text string) error {
	v, err := strconv.ParseFloat(text, 64)
	if err == nil && (v < -1e9 || v > 1e9 || v != v) {
		return errors.New("out of range")
	}
	*d = time.Duration(v*1000) * time.Millisecond
	return err
}

// ReadSacct reads the output of the command below. It skips and counts jobs that never ran or had no GPU:
//
//	sacct -aXP --format=JobIDRaw,Submit,Start,ElapsedRaw,AllocTRES,NNodes,QOS,User,Account,TimelimitRaw
func ReadSacct(r io.Reader) (jobs []Job, skipped int, err error) {
	lines := csv.NewReader(r)
	lines.Comma, lines.LazyQuotes = '|', true
	var first time.Time
	jobs, err = readTrace(lines, func(names []string) error {
		for _, must := range []string{"JobIDRaw", "Submit", "ElapsedRaw", "AllocTRES", "NNodes"} {
			if !slices.Contains(names, must) {
				return fmt.Errorf("column %s is missing: give sacct --format as in the documentation", must)
			}
		}
		return nil
	}, func(names, fields []string) (Job, bool, error) {
		row := make(map[string]string, len(names))
		for i, name := range names {
			row[name] = fields[i]
		}
		submit, err := time.Parse("2006-01-02T15:04:05", row["Submit"])
		if err != nil {
			return Job{}, false, err
		}
		if first.IsZero() {
			first = submit
		}
		j, err := fromSacct(row)
		j.Submit = submit.Sub(first) + 1<<60 // made right below, when the earliest is known
		keep := j.GPUs > 0 && j.Duration > 0
		if !keep {
			skipped++
		}
		return j, keep, err
	})
	if err != nil || len(jobs) == 0 {
		return jobs, skipped, err
	}
	earliest := jobs[0].Submit
	for i := range jobs {
		jobs[i].Submit -= earliest
	}
	return jobs, skipped, nil
}

// fromSacct makes a job, but for its submission, of a line.
func fromSacct(row map[string]string) (Job, error) {
	j := Job{QOS: row["QOS"], User: row["User"], Account: row["Account"]}
	var minutes int64
	err := errors.Join(
		parseNumber(&j.ID, row["JobIDRaw"]),
		parseSeconds(&j.Duration, row["ElapsedRaw"]),
		parseNumber(&j.Nodes, row["NNodes"]),
	)
	if limit := row["TimelimitRaw"]; limit != "" && parseNumber(&minutes, limit) == nil {
		j.Limit = time.Duration(minutes) * time.Minute // "UNLIMITED" is no limit
	}
	for tres := range strings.SplitSeq(row["AllocTRES"], ",") {
		if text, ok := strings.CutPrefix(tres, "gres/gpu="); ok {
			err = errors.Join(err, parseNumber(&j.GPUs, text))
		}
	}
	if j.Nodes > 0 && j.GPUs%j.Nodes != 0 {
		j.Nodes = 1 // uneven: Slurm can do that, the simulation cannot
	}
	return j, err
}
