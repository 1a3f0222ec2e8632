// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// nodeOf says which of today's nodes, counted from 0, has a capsule. A capsule is never
// split; on fewer nodes neighbours share one, on more the last ones stay empty.
func nodeOf(capsule, capsules, nodes int) int {
	if nodes >= capsules {
		return capsule
	}
	return capsule * nodes / capsules
}

// capsulesOf is its inverse.
func capsulesOf(node, capsules, nodes int) []int {
	var all []int
	for k := range capsules {
		if nodeOf(k, capsules, nodes) == node {
			all = append(all, k)
		}
	}
	return all
}

// placement says where a job's capsules are in this run.
type placement struct {
	first []string // names of the nodes of the first run
	today []string
}

// on returns the capsules of a node of this run.
func (p placement) on(node string) ([]int, error) {
	i := slices.Index(p.today, node)
	if i < 0 {
		return nil, fmt.Errorf("node %s is not among the job's: %s", node, strings.Join(p.today, ","))
	}
	return capsulesOf(i, len(p.first), len(p.today)), nil
}

// node returns the node that a capsule is on in this run.
func (p placement) node(capsule int) string {
	return p.today[nodeOf(capsule, len(p.first), len(p.today))]
}

// names are variables by which a task knows nodes, where these are not those of the first
// run: in the capsules the names of the first run mean the capsules.
// first is what the batch script was told of them in the first run.
func (p placement) names(capsule int, first map[string]string) []string {
	if slices.Equal(p.first, p.today) {
		return nil
	}
	all := cmp.Or(first["SLURM_JOB_NODELIST"], strings.Join(p.first, ","))
	return []string{"SLURM_JOB_NODELIST", all, "SLURM_NODELIST", all, "SLURMD_NODENAME", p.first[capsule]}
}

// translation maps the names of the first run's nodes to today's.
func (p placement) translation() map[string]string {
	m := map[string]string{}
	for k, name := range p.first {
		m[name] = p.node(k)
	}
	return m
}

// The name of the batch script's program. All others are "KEY.TASK".
const batch = "batch"

// taskName names the program of a step's task.
func taskName(key, step string, task int) string {
	if key == "" { // not by our srun
		key = "x" + step
	}
	return fmt.Sprintf("%s.%d", key, task)
}

// stepOf is the inverse of taskName.
func stepOf(program string) (key string, task int, ok bool) {
	i := strings.LastIndexByte(program, '.')
	if i < 0 {
		return "", 0, false
	}
	task, err := strconv.Atoi(program[i+1:])
	return program[:i], task, err == nil
}
