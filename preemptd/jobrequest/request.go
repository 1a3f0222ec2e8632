// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package jobrequest has the part of a job's request to Slurm that actions of preemptd change: nodes, GPUs and QOS.
// The package has the edit that turns a request into another, and the edit that takes the first edit back. It also
// has the record of an edited job: the request of the job's user.
package jobrequest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// Request is a job's request to Slurm. Host lists are as Slurm writes them.
type Request struct {
	Required string `json:"required,omitempty"` // host lists
	Excluded string `json:"excluded,omitempty"`
	QOS      string `json:"qos,omitempty"`
	Nodes    int64  `json:"nodes,omitempty"`
	Tasks    int64  `json:"tasks,omitempty"`    // never changes
	PerNode  int64  `json:"perNode,omitempty"`  // tasks on each node, if the job says so
	PerTask  int64  `json:"perTask,omitempty"`  // CPUs, never changes
	LeastCPU int64  `json:"leastCPU,omitempty"` // CPUs that each node has at least
	TRESNode string `json:"tresNode,omitempty"`
	TRESJob  string `json:"tresJob,omitempty"`
	TRESTask string `json:"tresTask,omitempty"`
}

// Of returns a job's present request.
func Of(j *slurmrest.Job) Request {
	return Request{
		Required: j.RequiredNodes, Excluded: j.ExcludedNodes, QOS: j.QOS,
		Nodes: j.NodeCount.Or(0), Tasks: j.Tasks.Or(0), PerNode: j.TasksPerNode.Or(0), PerTask: j.CPUsPerTask.Or(0), LeastCPU: j.MinCPUsPerNode.Or(0),
		TRESNode: j.TRESPerNode, TRESJob: j.TRESPerJob, TRESTask: j.TRESPerTask,
	}
}

// SameSize tells whether two requests ask for the same number of nodes and GPUs.
func (r Request) SameSize(other Request) bool {
	return r.Nodes == other.Nodes && r.TRESNode == other.TRESNode && r.TRESJob == other.TRESJob && r.TRESTask == other.TRESTask
}

// RequireNodes makes the job ask for all of these nodes, and for no more. Without nodes, the request stays as it is.
// An error says why the job cannot have so many nodes.
func (r *Request) RequireNodes(nodes []string) error {
	if len(nodes) == 0 {
		return nil
	}
	r.Required = strings.Join(nodes, ",")
	return r.setNodeCount(int64(len(nodes)))
}

// setNodeCount changes the number of nodes, and not the number of tasks.
func (r *Request) setNodeCount(nodes int64) error {
	switch {
	case nodes == r.Nodes:
		return nil
	case r.Tasks == 0:
		return errors.New("how many tasks it has is not known")
	case nodes > r.Tasks:
		return fmt.Errorf("it has %s, which cannot be on %d nodes", CountOf(r.Tasks, "task"), nodes)
	case strings.Contains(r.TRESTask, gpu):
		return errPerTask
	}
	if r.PerNode != 0 {
		was := r.PerNode
		r.PerNode = (r.Tasks + nodes - 1) / nodes
		// With more tasks on a node Slurm raises this, and with fewer it would wait for nodes that give these tasks more CPUs
		// than they can have.
		if cpus := max(r.PerTask, 1); r.LeastCPU == was*cpus {
			r.LeastCPU = r.PerNode * cpus
		}
	}
	r.Nodes = nodes
	return nil
}

// gpu is Slurm's name of GPUs in a job's request.
const gpu = "gres/gpu"

var errPerTask = errors.New("it asks for GPUs per task, and the number of its tasks stays; submit it with --gpus-per-node or --gpus")

// ExcludeNodes adds nodes to the excluded nodes of the job. The job no longer requires an excluded node.
func (r *Request) ExcludeNodes(nodes []string) {
	if len(nodes) == 0 {
		return
	}
	r.Excluded = strings.Join(unionOf(HostNames(r.Excluded), nodes), ",")
	var kept []string
	for _, n := range HostNames(r.Required) {
		if !slices.Contains(nodes, n) {
			kept = append(kept, n)
		}
	}
	r.Required = strings.Join(kept, ",")
}

// Resize changes the number of nodes, and of GPUs on each node. 0 keeps the number. An error says why the job cannot
// have this size.
func (r *Request) Resize(nodes, gpus int64) error {
	if nodes != 0 {
		if err := r.setNodeCount(nodes); err != nil {
			return err
		}
	}
	switch {
	case gpus == 0:
		return nil
	case r.Tasks == 0:
		return errors.New("how many tasks it has is not known")
	case strings.Contains(r.TRESTask, gpu):
		return errPerTask
	}
	if strings.Contains(r.TRESJob, gpu) {
		r.TRESJob = withGPUs(r.TRESJob, gpus*r.Nodes)
	}
	if strings.Contains(r.TRESNode, gpu) || !strings.Contains(r.TRESJob, gpu) {
		r.TRESNode = withGPUs(r.TRESNode, gpus)
	}
	return nil
}

// withGPUs replaces the number of GPUs in "gres/gpu:a100:2,gres/nic:1".
func withGPUs(tres string, n int64) string {
	items := strings.FieldsFunc(tres, func(r rune) bool { return r == ',' })
	found := false
	for i, item := range items {
		name, _, _ := strings.Cut(item, ":")
		if name != gpu {
			continue
		}
		found = true
		if at := strings.LastIndexByte(item, ':'); at >= 0 {
			if _, err := strconv.Atoi(item[at+1:]); err == nil {
				item = item[:at]
			}
		}
		items[i] = fmt.Sprintf("%s:%d", item, n)
	}
	if !found {
		items = append(items, fmt.Sprintf("%s:%d", gpu, n))
	}
	return strings.Join(items, ",")
}

// EditTo returns the update that makes a job which asks for r ask for wanted.
func (r Request) EditTo(wanted Request) slurmrest.JobUpdate {
	var u slurmrest.JobUpdate
	text := func(at **string, is, want string) {
		if is != want {
			*at = &want
		}
	}
	number := func(at **int64, is, want int64) {
		if is != want && want != 0 {
			*at = &want
		}
	}
	if !SameHosts(r.Required, wanted.Required) {
		u.RequiredNodes = &wanted.Required
	}
	if !SameHosts(r.Excluded, wanted.Excluded) {
		u.ExcludedNodes = &wanted.Excluded
	}
	text(&u.QOS, r.QOS, wanted.QOS)
	text(&u.TRESPerNode, r.TRESNode, wanted.TRESNode)
	text(&u.TRESPerJob, r.TRESJob, wanted.TRESJob)
	number(&u.NodeCount, r.Nodes, wanted.Nodes)
	number(&u.TasksPerNode, r.PerNode, wanted.PerNode)
	if wanted.LeastCPU < r.LeastCPU { // Slurm raises it by itself
		number(&u.MinCPUsPerNode, r.LeastCPU, wanted.LeastCPU)
	}
	if u.NodeCount != nil { // if not, Slurm changes the number with the nodes
		u.Tasks = &wanted.Tasks
		if wanted.Tasks == 0 {
			u.Tasks = nil
		}
	}
	return u
}

// SameAs reports whether EditTo has no field to change.
func (r Request) SameAs(wanted Request) bool { return r.EditTo(wanted) == slurmrest.JobUpdate{} }

// ForeignEdit returns the name of a field that has neither its old value nor the wanted value, because a person or
// another program edited the job; "" if there is no such field. Numbers do not count: Slurm changes them together.
func (r Request) ForeignEdit(old, wanted Request) string {
	for _, f := range []struct {
		name          string
		is, old, want string
		equal         func(a, b string) bool
	}{
		{"required nodes", r.Required, old.Required, wanted.Required, SameHosts},
		{"excluded nodes", r.Excluded, old.Excluded, wanted.Excluded, SameHosts},
		{"QOS", r.QOS, old.QOS, wanted.QOS, func(a, b string) bool { return a == b }},
	} {
		if !f.equal(f.is, f.old) && !f.equal(f.is, f.want) {
			return f.name
		}
	}
	return ""
}

// TakeBack returns the request of a job, now r, after an edit from old to edited is taken back. A field that was
// edited again since keeps its value.
func (r Request) TakeBack(old, edited Request) Request {
	to := r
	if SameHosts(r.Required, edited.Required) {
		to.Required = old.Required
	}
	if SameHosts(r.Excluded, edited.Excluded) {
		to.Excluded = old.Excluded
	}
	text := func(at *string, old, edited string) {
		if *at == edited {
			*at = old
		}
	}
	number := func(at *int64, old, edited int64) {
		if *at == edited {
			*at = old
		}
	}
	text(&to.QOS, old.QOS, edited.QOS)
	text(&to.TRESNode, old.TRESNode, edited.TRESNode)
	text(&to.TRESJob, old.TRESJob, edited.TRESJob)
	number(&to.Nodes, old.Nodes, edited.Nodes)
	number(&to.PerNode, old.PerNode, edited.PerNode)
	number(&to.LeastCPU, old.LeastCPU, edited.LeastCPU)
	return to
}
