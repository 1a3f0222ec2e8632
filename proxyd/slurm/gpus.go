// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// GPUs returns which GPUs a job has on each of its nodes, in the order of Job.Nodes, by the
// numbers that Slurm gives them there. The result is nil for a job without GPUs.
func (s *Slurm) GPUs(ctx context.Context, job string) ([][]int, error) {
	out, err := s.scontrol.Run(ctx, "show", "job", job, "--details", "--json")
	// The scontrol of 22.05 has no JSON; the squeue of 22.05 has, with the GPUs in it.
	var failed *slurmrest.ScontrolError
	if errors.As(err, &failed) && strings.Contains(failed.Output, "unrecognized option '--json'") {
		out, err = s.squeue.Run(ctx, "--states=all", "--jobs="+job, "--json")
	}
	if err != nil {
		return nil, fmt.Errorf("GPUs of job %s: %w", job, err)
	}
	all, err := parseGPUs(out, job)
	if err != nil {
		return nil, fmt.Errorf("GPUs of job %s: %w", job, err)
	}
	return all, nil
}

// shownJob is the part of scontrol's JSON of a job that parseGPUs needs.
type shownJob struct {
	ID        uint32     `json:"job_id"`
	ArrayJob  jsonNumber `json:"array_job_id"`
	ArrayTask jsonNumber `json:"array_task_id"`
	Detail    []string   `json:"gres_detail"`
}

// jsonNumber is a number of Slurm's JSON: plain, or an object that says whether the number is
// set.
type jsonNumber struct {
	set   bool
	value uint32
}

func (n *jsonNumber) UnmarshalJSON(text []byte) error {
	if err := json.Unmarshal(text, &n.value); err == nil {
		n.set = string(text) != "null"
		return nil
	}
	var long struct {
		Set    bool   `json:"set"`
		Number uint32 `json:"number"`
	}
	err := json.Unmarshal(text, &long)
	n.set, n.value = long.Set, long.Number
	return err
}

// isNamed tells whether job, "812" or "812_3", is the name of the shown job.
func (s *shownJob) isNamed(job string) bool {
	if array, task, isTask := strings.Cut(job, "_"); isTask {
		return s.ArrayTask.set && fmt.Sprint(s.ArrayJob.value) == array && fmt.Sprint(s.ArrayTask.value) == task
	}
	return fmt.Sprint(s.ID) == job
}

// parseGPUs reads scontrol's output about a job. Only in scontrol's JSON can the texts of users not
// be mistaken for Slurm's own. For a task of an array, scontrol prints all tasks of that array
// (seen with 26.05).
func parseGPUs(out []byte, job string) ([][]int, error) {
	var shown struct {
		Jobs []shownJob `json:"jobs"`
	}
	if err := json.Unmarshal(out, &shown); err != nil {
		return nil, err
	}
	asked := slices.IndexFunc(shown.Jobs, func(s shownJob) bool { return s.isNamed(job) })
	if asked < 0 {
		return nil, fmt.Errorf("scontrol shows %d jobs and not this one", len(shown.Jobs))
	}
	var all [][]int
	some := false
	for _, node := range shown.Jobs[asked].Detail {
		gpus, err := parseNodeGPUs(node)
		if err != nil {
			return nil, err
		}
		all = append(all, gpus)
		some = some || len(gpus) > 0
	}
	if !some {
		return nil, nil
	}
	return all, nil
}

// parseNodeGPUs reads the resources of a node: "gpu:a100:2(IDX:0,3),license:1". If Slurm does not give the
// numbers of the GPUs, they are counted from 0.
func parseNodeGPUs(detail string) ([]int, error) {
	var all []int
	for _, item := range splitOutside(detail) {
		kind, which, _ := strings.Cut(item, "(")
		f := strings.Split(kind, ":")
		if f[0] != "gpu" {
			continue
		}
		list, named := strings.CutPrefix(strings.TrimSuffix(which, ")"), "IDX:")
		if !named || list == "N/A" {
			n, err := strconv.Atoi(f[len(f)-1])
			if err != nil {
				return nil, badGPUs(detail)
			}
			for i := range min(n, maxGPUs) {
				all = append(all, i)
			}
			continue
		}
		some, err := parseNumbers(list)
		if err != nil {
			return nil, badGPUs(detail)
		}
		all = append(all, some...)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// maxGPUs limits the GPUs of a node: a higher count is cut, and a higher index is an error.
const maxGPUs = 1024

func badGPUs(detail string) error { return fmt.Errorf("%q is not understood", detail) }

// splitOutside cuts at the commas that are in no parentheses.
func splitOutside(s string) []string {
	depth := 0
	return strings.FieldsFunc(s, func(c rune) bool {
		switch c {
		case '(':
			depth++
		case ')':
			depth--
		}
		return c == ',' && depth == 0
	})
}

// parseNumbers reads "0-1,4".
func parseNumbers(list string) ([]int, error) {
	var all []int
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		a, err1 := strconv.Atoi(first)
		b, err2 := strconv.Atoi(last)
		if err := errors.Join(err1, err2); err != nil || a < 0 || b < a || b >= maxGPUs {
			return nil, badGPUs(list)
		}
		for i := a; i <= b; i++ {
			all = append(all, i)
		}
	}
	return all, nil
}

// Constrains tells whether Slurm lets a job see its own devices only: then Slurm counts them from
// 0 in CUDA_VISIBLE_DEVICES.
func (s *Slurm) Constrains(ctx context.Context) (bool, error) {
	out, err := s.scontrol.Run(ctx, "show", "config")
	if err != nil {
		return false, fmt.Errorf("does Slurm constrain devices: %w", err)
	}
	return parseConstrains(string(out)), nil
}

func parseConstrains(config string) bool {
	for line := range strings.Lines(config) {
		name, value, _ := strings.Cut(line, "=")
		if strings.TrimSpace(name) == "ConstrainDevices" {
			return strings.TrimSpace(value) == "yes"
		}
	}
	return false
}
