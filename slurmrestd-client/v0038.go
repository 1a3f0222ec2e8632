// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmrest

import (
	"fmt"
	"strings"
	"time"
)

// v0038 is the version of 22.05. Its answers are written by hand in Slurm's C: a number that is not
// set is null, a state is a single word in which a flag hides the base. Its requests go through
// sbatch's option parser: names and spellings are those of options, values may be texts, and a
// request cannot express more than sbatch can.
type v0038 struct{}

func (v0038) versionName() string { return V0038 }
func (v0038) listAbilities() abilities {
	return abilities{updateTask: true, arrayFalse: true, signalSaid: true}
}
func (v0038) formatSince(t time.Time) string   { return unixSeconds(t) }
func (v0038) jobTable() table[Job]             { return v0038Jobs }
func (v0038) nodeTable() table[Node]           { return v0038Nodes }
func (v0038) partitionTable() table[Partition] { return v0038Partitions }

var v0038Jobs = jobFields.withFields(table[Job]{
	// There is no "hold" in a record: a priority of 0 is a hold.
	"priority": func(s *scanner, j *Job) {
		j.Priority = s.readNumber()
		j.Held = j.Priority == Num(0)
	},
	"time_limit":   nullIsUnlimited(func(j *Job) *Limit { return &j.TimeLimit }),
	"time_minimum": limitField(time.Minute, func(j *Job) *Limit { return &j.TimeMinimum }),
})

// nullIsUnlimited reads a limit in minutes: null means no limit.
func nullIsUnlimited[T any](at func(*T) *Limit) field[T] {
	return func(s *scanner, t *T) {
		n := s.readNumber()
		if !n.Set {
			n = Number{Set: true, Infinite: true}
		}
		*at(t) = limitOf(n, time.Minute)
	}
}

var v0038Nodes = nodeFields.withFields(table[Node]{
	"state_flags":    textsField(func(n *Node) *[]string { return &n.State.Flags }),
	"free_memory":    numberField(func(n *Node) *Number { return &n.FreeMemory }),
	"slurmd_version": textField(func(n *Node) *string { return &n.Version }),
})

var v0038Partitions = table[Partition]{
	"name":                  textField(func(p *Partition) *string { return &p.Name }),
	"state":                 textField(func(p *Partition) *string { return &p.State }),
	"nodes":                 hostsField(func(p *Partition) *string { return &p.Nodes }),
	"total_nodes":           intField(func(p *Partition) *int64 { return &p.TotalNodes }),
	"total_cpus":            intField(func(p *Partition) *int64 { return &p.TotalCPUs }),
	"tres":                  textField(func(p *Partition) *string { return &p.TRES }),
	"max_time_limit":        minusOneLimit(func(p *Partition) *Limit { return &p.MaxTime }),
	"default_time_limit":    minusOneLimit(func(p *Partition) *Limit { return &p.DefaultTime }),
	"min nodes per job":     intField(func(p *Partition) *int64 { return &p.MinNodes }), // with blanks in its name
	"maximum_nodes_per_job": minusOneNumber(func(p *Partition) *Number { return &p.MaxNodes }),
	"preemption_grace_time": secondsField(func(p *Partition) *time.Duration { return &p.GraceTime }),
	"priority_tier":         intField(func(p *Partition) *int64 { return &p.PriorityTier }),
	"priority_job_factor":   intField(func(p *Partition) *int64 { return &p.PriorityFactor }),
	"qos":                   textField(func(p *Partition) *string { return &p.QOS }),
	"allowed_qos":           textField(func(p *Partition) *string { return &p.AllowedQOS }),
	"allowed_accounts":      textField(func(p *Partition) *string { return &p.AllowedAccount }),
	"preemption_mode":       textsField(func(p *Partition) *[]string { return &p.PreemptMode }),
}

// minusOneNumber reads a number: -1 means that there is no bound.
func minusOneNumber[T any](at func(*T) *Number) field[T] {
	return func(s *scanner, t *T) {
		n := s.readNumber()
		if n == Num(-1) {
			n = Number{Set: true, Infinite: true}
		}
		*at(t) = n
	}
}

func minusOneLimit[T any](at func(*T) *Limit) field[T] {
	return func(s *scanner, t *T) {
		var n Number
		minusOneNumber(func(n *Number) *Number { return n })(s, &n)
		*at(t) = limitOf(n, time.Minute)
	}
}

func (d v0038) jobUpdate(u JobUpdate, now time.Time) draft {
	b := body{}
	putIfSet(b, "partition", u.Partition)
	putIfSet(b, "qos", u.QOS)
	putIfSet(b, "account", u.Account)
	putIfSet(b, "nodelist", u.RequiredNodes) // "required_nodes" is a disabled key
	putIfSet(b, "reservation", u.Reservation)
	putIfSet(b, "exclude_nodes", u.ExcludedNodes)
	putIfSet(b, "comment", u.Comment)
	putIfSet(b, "constraints", u.Features)
	putIfSet(b, "memory_per_node", u.MemoryPerNode)
	putIfSet(b, "cpus_per_task", u.CPUsPerTask)
	putIfSet(b, "tasks", u.Tasks)
	putIfSet(b, "tasks_per_node", u.TasksPerNode)
	putIfSet(b, "minimum_cpus_per_node", u.MinCPUsPerNode)
	putIfSet(b, "priority", u.Priority)
	putIfSet(b, "hold", u.Hold)
	putIfSet(b, "dependency", u.Dependency)
	switch {
	case u.AdminComment != nil:
		return draft{err: noAbility(d, "update of the admin comment", V0040)}
	case u.Name != nil: // Slurm parses the name and then ignores it
		return draft{err: noAbility(d, "update of the name", V0040)}
	}
	if u.NodeCount != nil {
		// The documented form [n,n] is parsed and then ignored.
		b["nodes"] = fmt.Sprint(*u.NodeCount)
	}
	if u.TimeLimit != nil {
		b["time_limit"] = v0038Minutes(*u.TimeLimit)
	}
	if u.Requeue != nil {
		b[v0038Requeue(*u.Requeue)] = true
	}
	if u.BeginTime != nil {
		b["begin_time"] = utsSeconds(earliestBegin(*u.BeginTime, now))
	}
	return draft{b, d.putTRES(b, u.TRESPerJob, u.TRESPerNode, u.TRESPerTask)}
}

// v0038Requeue is the key that says whether a job may be requeued. Slurm ignores the value:
// {"requeue":false} would switch requeueing on.
func v0038Requeue(allowed bool) string {
	if allowed {
		return "requeue"
	}
	return "no_requeue"
}

func v0038Minutes(l Limit) string {
	if l.Infinite {
		return "UNLIMITED"
	}
	return fmt.Sprint(l.wholeMinutes())
}

// putTRES adds TRES requests, as far as sbatch has an option for them: any gres per
// node, and GPUs per job and per task.
func (d v0038) putTRES(b body, perJob, perNode, perTask *string) error {
	if perNode != nil {
		gres, err := d.gresOption("TRES per node", *perNode)
		if err != nil {
			return err
		}
		b["gres"] = gres
	}
	for option, request := range map[string]*string{"gpus": perJob, "gpus_per_task": perTask} {
		if request == nil {
			continue
		}
		gpus, isGPU := strings.CutPrefix(*request, "gres/gpu:")
		if !isGPU || strings.ContainsAny(gpus, ",/") {
			return noAbility(d, fmt.Sprintf("a request of %q per job or task", *request), V0040)
		}
		b[option] = gpus
	}
	return nil
}

// gresOption spells "gres/gpu:2,gres/nic:1" as sbatch's --gres does: "gpu:2,nic:1".
func (d v0038) gresOption(what, request string) (string, error) {
	if request == "" {
		return "", noAbility(d, "removal of "+what, V0040)
	}
	items := strings.Split(request, ",")
	for i, item := range items {
		name, isGRES := strings.CutPrefix(item, "gres/")
		if !isGRES {
			return "", noAbility(d, fmt.Sprintf("%s of %q", what, item), V0040)
		}
		items[i] = name
	}
	return strings.Join(items, ","), nil
}

func (d v0038) jobSubmit(j JobSubmit) draft {
	if len(j.SpankEnvironment) > 0 {
		return draft{err: noAbility(d, "submit with a spank environment", V0040)}
	}
	if j.AdminComment != "" {
		return draft{err: noAbility(d, "submit with an admin comment", V0040)}
	}
	b := body{"environment": j.jobEnvironment()} // an object here
	for name, value := range map[string]string{
		"name": j.Name, "account": j.Account, "partition": j.Partition, "qos": j.QOS,
		"reservation": j.Reservation, "dependency": j.Dependency, "constraints": j.Features,
		"array": j.Array, "comment": j.Comment,
		"nodelist": j.RequiredNodes, "exclude_nodes": j.ExcludedNodes,
		"current_working_directory": j.WorkDir,
		"standard_input":            j.StdIn, "standard_output": j.StdOut, "standard_error": j.StdErr,
	} {
		putText(b, name, value)
	}
	for name, value := range map[string]int64{
		"tasks": j.Tasks, "tasks_per_node": j.TasksPerNode, "cpus_per_task": j.CPUsPerTask,
		"memory_per_node": j.MemoryPerNode, "memory_per_cpu": j.MemoryPerCPU, "priority": j.Priority,
	} {
		putCount(b, name, value)
	}
	v0038Amounts(b, j)
	return draft{b, d.putTRES(b, nilIfEmpty(j.TRESPerJob), nilIfEmpty(j.TRESPerNode), nilIfEmpty(j.TRESPerTask))}
}

// v0038Amounts adds the fields that v0.0.38 spells in a way of its own.
func v0038Amounts(b body, j JobSubmit) {
	if j.MinNodes > 0 || j.MaxNodes > 0 {
		b["nodes"] = j.nodeCounts()
	}
	if j.TimeLimit.Set {
		b["time_limit"] = v0038Minutes(j.TimeLimit)
	}
	if !j.BeginTime.IsZero() {
		b["begin_time"] = utsSeconds(j.BeginTime)
	}
	if j.Hold {
		b["hold"] = true
	}
	if j.Requeue != nil {
		b[v0038Requeue(*j.Requeue)] = true
	}
	if j.AppendLogs {
		b["open_mode"] = "append"
	}
}

func nilIfEmpty(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func (d v0038) nodeUpdate(NodeUpdate) draft {
	return draft{err: noAbility(d, "update of a node", V0040+" or scontrol")}
}
