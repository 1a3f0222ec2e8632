// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// NodeOfCapsule returns the index of the node, among the nodes of this run, on which a capsule
// is. On fewer nodes than capsules neighbours share a node; on more nodes the last ones stay
// empty.
func NodeOfCapsule(capsule, capsules, nodes int) int {
	if nodes >= capsules {
		return capsule
	}
	return capsule * nodes / capsules
}

// CapsulesOfNode is the inverse of NodeOfCapsule.
func CapsulesOfNode(node, capsules, nodes int) []int {
	var all []int
	for k := range capsules {
		if NodeOfCapsule(k, capsules, nodes) == node {
			all = append(all, k)
		}
	}
	return all
}

// Placement maps a job's capsules to the nodes of this run.
type Placement struct {
	FirstRun []string // nodes of the first run
	ThisRun  []string
}

// CapsulesOn returns the capsules of a node of this run.
func (p Placement) CapsulesOn(node string) ([]int, error) {
	i := slices.Index(p.ThisRun, node)
	if i < 0 {
		return nil, fmt.Errorf("node %s is not among the job's: %s", node, strings.Join(p.ThisRun, ","))
	}
	return CapsulesOfNode(i, len(p.FirstRun), len(p.ThisRun)), nil
}

// NodeOf returns the node of a capsule in this run.
func (p Placement) NodeOf(capsule int) string {
	return p.ThisRun[NodeOfCapsule(capsule, len(p.FirstRun), len(p.ThisRun))]
}

// NodeEnv returns variables with names of nodes, for a task of a run on other nodes than the
// first run: within capsules, the names of the first run's nodes stand for the capsules. first is
// the environment of the batch script in the first run.
func (p Placement) NodeEnv(capsule int, first map[string]string) []string {
	if slices.Equal(p.FirstRun, p.ThisRun) {
		return nil
	}
	all := cmp.Or(first["SLURM_JOB_NODELIST"], strings.Join(p.FirstRun, ","))
	return []string{"SLURM_JOB_NODELIST", all, "SLURM_NODELIST", all, "SLURMD_NODENAME", p.FirstRun[capsule]}
}

// NodeTranslation maps the names of the first run's nodes to those of this run.
func (p Placement) NodeTranslation() map[string]string {
	m := map[string]string{}
	for k, name := range p.FirstRun {
		m[name] = p.NodeOf(k)
	}
	return m
}

// BatchProgram is the name of the batch script's program. The names of tasks are "KEY.TASK".
const BatchProgram = "batch"

// TaskName returns the name of a task's program.
func TaskName(key, step string, task int) string {
	if key == "" { // the step was not started by sing-srun
		key = "x" + step
	}
	return fmt.Sprintf("%s.%d", key, task)
}

// ParseTaskName is the inverse of TaskName.
func ParseTaskName(program string) (key string, task int, ok bool) {
	i := strings.LastIndexByte(program, '.')
	if i < 0 {
		return "", 0, false
	}
	task, err := strconv.Atoi(program[i+1:])
	return program[:i], task, err == nil
}
