// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// shape is what a job asks for, as far as actions change it.
type shape struct {
	Required string `json:"required,omitempty"` // host lists
	Excluded string `json:"excluded,omitempty"`
	QOS      string `json:"qos,omitempty"`
	Nodes    int64  `json:"nodes,omitempty"`
	Tasks    int64  `json:"tasks,omitempty"`   // never changes
	PerNode  int64  `json:"perNode,omitempty"` // tasks on each node, if it says so
	TRESNode string `json:"tresNode,omitempty"`
	TRESJob  string `json:"tresJob,omitempty"`
	TRESTask string `json:"tresTask,omitempty"`
}

func shapeOf(j *slurmrest.Job) shape {
	return shape{
		Required: j.RequiredNodes, Excluded: j.ExcludedNodes, QOS: j.QOS,
		Nodes: j.NodeCount.Or(0), Tasks: j.Tasks.Or(0), PerNode: j.TasksPerNode.Or(0),
		TRESNode: j.TRESPerNode, TRESJob: j.TRESPerJob, TRESTask: j.TRESPerTask,
	}
}

// put is what most actions change: nodes, and what the job gets on each.
func put(a Args, s *shape) error {
	s.avoid(a.Avoid)
	if err := s.pin(a.Nodes); err != nil {
		return err
	}
	return s.size(a.NodeCount, a.GPUs)
}

// pin has the job run on these nodes, all of them; none: where it asked to.
func (s *shape) pin(nodes []string) error {
	if len(nodes) == 0 {
		return nil
	}
	s.Required = strings.Join(nodes, ",")
	return s.spread(int64(len(nodes)))
}

// spread changes the number of nodes, and not that of tasks.
func (s *shape) spread(nodes int64) error {
	switch {
	case nodes == s.Nodes:
		return nil
	case s.Tasks == 0:
		return errors.New("how many tasks it has is not known")
	case nodes > s.Tasks:
		return fmt.Errorf("it has %d tasks, which cannot be on %d nodes", s.Tasks, nodes)
	case strings.Contains(s.TRESTask, gpu):
		return errPerTask
	}
	if s.PerNode != 0 {
		s.PerNode = (s.Tasks + nodes - 1) / nodes
	}
	s.Nodes = nodes
	return nil
}

// gpu is how Slurm spells them in what a job asks for.
const gpu = "gres/gpu"

var errPerTask = errors.New("it asks for GPUs per task, and the number of its tasks stays; submit it with --gpus-per-node or --gpus")

// avoid keeps it from these nodes, beside those that it avoids anyway. A node that it
// must be kept from cannot be one that it requires.
func (s *shape) avoid(nodes []string) {
	if len(nodes) == 0 {
		return
	}
	s.Excluded = strings.Join(union(hosts(s.Excluded), nodes), ",")
	var left []string
	for _, n := range hosts(s.Required) {
		if !slices.Contains(nodes, n) {
			left = append(left, n)
		}
	}
	s.Required = strings.Join(left, ",")
}

// size changes the number of nodes, and of GPUs on each; 0: as it is.
func (s *shape) size(nodes, gpus int64) error {
	if nodes != 0 {
		if err := s.spread(nodes); err != nil {
			return err
		}
	}
	switch {
	case gpus == 0:
		return nil
	case s.Tasks == 0:
		return errors.New("how many tasks it has is not known")
	case strings.Contains(s.TRESTask, gpu):
		return errPerTask
	}
	if strings.Contains(s.TRESJob, gpu) {
		s.TRESJob = withGPUs(s.TRESJob, gpus*s.Nodes)
	}
	if strings.Contains(s.TRESNode, gpu) || !strings.Contains(s.TRESJob, gpu) {
		s.TRESNode = withGPUs(s.TRESNode, gpus)
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

// edit is what makes a job that asks for s ask for to.
func (s shape) edit(to shape) slurmrest.JobUpdate {
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
	if !sameHosts(s.Required, to.Required) {
		u.RequiredNodes = &to.Required
	}
	if !sameHosts(s.Excluded, to.Excluded) {
		u.ExcludedNodes = &to.Excluded
	}
	text(&u.QOS, s.QOS, to.QOS)
	text(&u.TRESPerNode, s.TRESNode, to.TRESNode)
	text(&u.TRESPerJob, s.TRESJob, to.TRESJob)
	number(&u.NodeCount, s.Nodes, to.Nodes)
	number(&u.TasksPerNode, s.PerNode, to.PerNode)
	if u.NodeCount != nil { // or Slurm changes it with the nodes
		u.Tasks = &to.Tasks
		if to.Tasks == 0 {
			u.Tasks = nil
		}
	}
	return u
}

// same reports whether there is nothing to edit.
func (s shape) same(to shape) bool { return s.edit(to) == slurmrest.JobUpdate{} }

// foreign returns what somebody has edited: the name of a field that is neither as it was
// nor as it shall be; "" if there is none. Numbers are not looked at, for Slurm itself
// changes them with each other.
func (s shape) foreign(was, shall shape) string {
	for _, f := range []struct {
		name          string
		is, was, want string
		equal         func(a, b string) bool
	}{
		{"required nodes", s.Required, was.Required, shall.Required, sameHosts},
		{"excluded nodes", s.Excluded, was.Excluded, shall.Excluded, sameHosts},
		{"QOS", s.QOS, was.QOS, shall.QOS, func(a, b string) bool { return a == b }},
	} {
		if !f.equal(f.is, f.was) && !f.equal(f.is, f.want) {
			return f.name
		}
	}
	return ""
}

// back is what a job that asks for s now asks for when an edit from was to shall is taken
// back: only what is still as the edit made it changes.
func (s shape) back(was, shall shape) shape {
	to := s
	if sameHosts(s.Required, shall.Required) {
		to.Required = was.Required
	}
	if sameHosts(s.Excluded, shall.Excluded) {
		to.Excluded = was.Excluded
	}
	text := func(at *string, was, shall string) {
		if *at == shall {
			*at = was
		}
	}
	number := func(at *int64, was, shall int64) {
		if *at == shall {
			*at = was
		}
	}
	text(&to.QOS, was.QOS, shall.QOS)
	text(&to.TRESNode, was.TRESNode, shall.TRESNode)
	text(&to.TRESJob, was.TRESJob, shall.TRESJob)
	number(&to.Nodes, was.Nodes, shall.Nodes)
	number(&to.PerNode, was.PerNode, shall.PerNode)
	return to
}

// origin is what the journal keeps of a job that was edited: what it had asked for, and
// what was made of that.
type origin struct {
	Asked shape  `json:"asked"`
	Ours  shape  `json:"ours"`
	By    editor `json:"by"` // who made it
}

// editor is who edited a job, and in which of its runs.
type editor struct {
	Who      string `json:"who,omitempty"`
	Restarts int64  `json:"restarts,omitempty"`
}

// Asked is what the journal's record of a job (journal.Origin) says that its user asked
// for: nodes, and GPUs on each.
func Asked(record json.RawMessage) (nodes int64, tresPerNode, tresPerJob string, err error) {
	var o origin
	if err := json.Unmarshal(record, &o); err != nil {
		return 0, "", "", fmt.Errorf("origin: %w", err)
	}
	return o.Asked.Nodes, o.Asked.TRESNode, o.Asked.TRESJob, nil
}

// Pins are host lists: the nodes that a job requires, and those that it excludes.
type Pins struct{ Required, Excluded string }

// Pinning is which nodes a job's user asked for, and which an action asked for instead: whose
// action that was, and how often the job had been restarted then.
type Pinning struct {
	Asked, Ours Pins
	Who         string
	Restarts    int64
}

// Pinned says what the journal's record of a job has of nodes.
func Pinned(record json.RawMessage) (Pinning, error) {
	var o origin
	if err := json.Unmarshal(record, &o); err != nil {
		return Pinning{}, fmt.Errorf("origin: %w", err)
	}
	return Pinning{Pins{o.Asked.Required, o.Asked.Excluded}, Pins{o.Ours.Required, o.Ours.Excluded}, o.By.Who, o.By.Restarts}, nil
}

func sameHosts(a, b string) bool {
	if a == b {
		return true
	}
	x, y := hosts(a), hosts(b)
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y)
}

// hosts are the names of a host list. What is none is its own name.
func hosts(list string) []string {
	names, err := slurmrest.Hosts(list)
	if err != nil {
		return []string{list}
	}
	return names
}

func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}
