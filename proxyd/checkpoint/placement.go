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

// nodeOfCapsule returns the index of the node, among the nodes of this run, on which a capsule
// is. On fewer nodes than capsules neighbours share a node; on more nodes the last ones stay
// empty.
func nodeOfCapsule(capsule, capsules, nodes int) int {
	if nodes >= capsules {
		return capsule
	}
	return capsule * nodes / capsules
}

// capsulesOfNode is the inverse of nodeOfCapsule.
func capsulesOfNode(node, capsules, nodes int) []int {
	var all []int
	for k := range capsules {
		if nodeOfCapsule(k, capsules, nodes) == node {
			all = append(all, k)
		}
	}
	return all
}

// placement maps a job's capsules to the nodes of this run.
type placement struct {
	first []string // nodes of the first run
	today []string
}

// capsulesOn returns the capsules of a node of this run.
func (p placement) capsulesOn(node string) ([]int, error) {
	i := slices.Index(p.today, node)
	if i < 0 {
		return nil, fmt.Errorf("node %s is not among the job's: %s", node, strings.Join(p.today, ","))
	}
	return capsulesOfNode(i, len(p.first), len(p.today)), nil
}

// nodeOf returns the node of a capsule in this run.
func (p placement) nodeOf(capsule int) string {
	return p.today[nodeOfCapsule(capsule, len(p.first), len(p.today))]
}

// nodeEnv returns variables with names of nodes, for a task of a run on other nodes than the
// first run: within capsules, the names of the first run's nodes stand for the capsules. first is
// the environment of the batch script in the first run.
func (p placement) nodeEnv(capsule int, first map[string]string) []string {
	if slices.Equal(p.first, p.today) {
		return nil
	}
	all := cmp.Or(first["SLURM_JOB_NODELIST"], strings.Join(p.first, ","))
	return []string{"SLURM_JOB_NODELIST", all, "SLURM_NODELIST", all, "SLURMD_NODENAME", p.first[capsule]}
}

// nodeTranslation maps the names of the first run's nodes to those of this run.
func (p placement) nodeTranslation() map[string]string {
	m := map[string]string{}
	for k, name := range p.first {
		m[name] = p.nodeOf(k)
	}
	return m
}

// batchProgram is the name of the batch script's program. The names of tasks are "KEY.TASK".
const batchProgram = "batch"

// taskName returns the name of a task's program.
func taskName(key, step string, task int) string {
	if key == "" { // the step was not started by sing-srun
		key = "x" + step
	}
	return fmt.Sprintf("%s.%d", key, task)
}

// parseTaskName is the inverse of taskName.
func parseTaskName(program string) (key string, task int, ok bool) {
	i := strings.LastIndexByte(program, '.')
	if i < 0 {
		return "", 0, false
	}
	task, err := strconv.Atoi(program[i+1:])
	return program[:i], task, err == nil
}
