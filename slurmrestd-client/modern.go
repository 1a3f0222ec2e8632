// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmrest

import (
	"fmt"
	"time"
)

// modernVersion has the common parts of v0.0.40 and all later versions. Their answers are made by Slurm's
// data_parser plugins, which changed little since.
type modernVersion struct{ name string }

func (m modernVersion) versionName() string { return m.name }

func (modernVersion) listAbilities() abilities {
	return abilities{lastUpdate: true, signalTo: true, signalSaid: true, updateNode: true, resComment: true}
}

func (modernVersion) formatSince(t time.Time) string   { return unixSeconds(t) }
func (modernVersion) jobTable() table[Job]             { return jobFields }
func (modernVersion) nodeTable() table[Node]           { return modernNodes }
func (modernVersion) partitionTable() table[Partition] { return modernPartitions }

var modernNodes = nodeFields.withFields(table[Node]{
	"free_mem": numberField(func(n *Node) *Number { return &n.FreeMemory }),
	"version":  textField(func(n *Node) *string { return &n.Version }),
})

var modernPartitions = table[Partition]{
	"name": textField(func(p *Partition) *string { return &p.Name }),
	"partition": objectField(table[Partition]{
		"state": readPartitionState,
	}),
	"nodes": objectField(table[Partition]{
		"configured": hostsField(func(p *Partition) *string { return &p.Nodes }),
		"total":      intField(func(p *Partition) *int64 { return &p.TotalNodes }),
	}),
	"cpus": objectField(table[Partition]{
		"total": intField(func(p *Partition) *int64 { return &p.TotalCPUs }),
	}),
	"tres": objectField(table[Partition]{
		"configured": textField(func(p *Partition) *string { return &p.TRES }),
	}),
	"maximums": objectField(table[Partition]{
		"time":  limitField(time.Minute, func(p *Partition) *Limit { return &p.MaxTime }),
		"nodes": numberField(func(p *Partition) *Number { return &p.MaxNodes }),
	}),
	"minimums": objectField(table[Partition]{
		"nodes": intField(func(p *Partition) *int64 { return &p.MinNodes }),
	}),
	"defaults": objectField(table[Partition]{
		"time": limitField(time.Minute, func(p *Partition) *Limit { return &p.DefaultTime }),
	}),
	"priority": objectField(table[Partition]{
		"tier":       intField(func(p *Partition) *int64 { return &p.PriorityTier }),
		"job_factor": intField(func(p *Partition) *int64 { return &p.PriorityFactor }),
	}),
	"qos": objectField(table[Partition]{
		"assigned": textField(func(p *Partition) *string { return &p.QOS }),
		"allowed":  textField(func(p *Partition) *string { return &p.AllowedQOS }),
	}),
	"accounts": objectField(table[Partition]{
		"allowed": textField(func(p *Partition) *string { return &p.AllowedAccount }),
	}),
	"grace_time":   secondsField(func(p *Partition) *time.Duration { return &p.GraceTime }),
	"preempt_mode": textsField(func(p *Partition) *[]string { return &p.PreemptMode }),
}

// readPartitionState reads "UP" or ["UP"].
func readPartitionState(s *scanner, p *Partition) {
	if states := s.readTexts(); len(states) > 0 {
		p.State = states[0]
	}
}

// numberBody writes a number for versions with {"set","infinite","number"}.
func numberBody(n int64) body { return body{"set": true, "infinite": false, "number": n} }

// limitMinutes writes a limit in minutes in the same form.
func limitMinutes(l Limit) body {
	if l.Infinite {
		return body{"set": true, "infinite": true, "number": 0}
	}
	return numberBody(l.wholeMinutes())
}

func (modernVersion) jobUpdate(u JobUpdate, now time.Time) draft {
	b := body{}
	putIfSet(b, "partition", u.Partition)
	putIfSet(b, "qos", u.QOS)
	putIfSet(b, "account", u.Account)
	putIfSet(b, "required_nodes", u.RequiredNodes) // a text: an empty list would mean "no change"
	putIfSet(b, "reservation", u.Reservation)
	putIfSet(b, "tres_per_job", u.TRESPerJob)
	putIfSet(b, "tres_per_node", u.TRESPerNode)
	putIfSet(b, "tres_per_task", u.TRESPerTask)
	putIfSet(b, "excluded_nodes", u.ExcludedNodes)
	putIfSet(b, "comment", u.Comment)
	putIfSet(b, "admin_comment", u.AdminComment)
	putIfSet(b, "name", u.Name)
	putIfSet(b, "constraints", u.Features)
	putIfSet(b, "cpus_per_task", u.CPUsPerTask)
	putIfSet(b, "minimum_nodes", u.NodeCount)
	putIfSet(b, "maximum_nodes", u.NodeCount)
	putIfSet(b, "tasks", u.Tasks)
	putIfSet(b, "tasks_per_node", u.TasksPerNode)
	putIfSet(b, "minimum_cpus_per_node", u.MinCPUsPerNode)
	putIfSet(b, "requeue", u.Requeue)
	putIfSet(b, "hold", u.Hold)
	putIfSet(b, "dependency", u.Dependency)
	if u.MemoryPerNode != nil {
		b["memory_per_node"] = numberBody(*u.MemoryPerNode)
	}
	if u.TimeLimit != nil {
		b["time_limit"] = limitMinutes(*u.TimeLimit)
	}
	if u.Priority != nil {
		b["priority"] = numberBody(*u.Priority)
	}
	if u.BeginTime != nil {
		b["begin_time"] = numberBody(earliestBegin(*u.BeginTime, now).Unix())
	}
	return draft{body: b}
}

func (modernVersion) jobSubmit(j JobSubmit) draft {
	b := body{"environment": envAssignments(j.jobEnvironment())}
	for name, value := range map[string]string{
		"name": j.Name, "account": j.Account, "partition": j.Partition, "qos": j.QOS,
		"reservation": j.Reservation, "dependency": j.Dependency, "constraints": j.Features,
		"array": j.Array, "comment": j.Comment, "admin_comment": j.AdminComment,
		"required_nodes": j.RequiredNodes, "excluded_nodes": j.ExcludedNodes,
		"tres_per_job": j.TRESPerJob, "tres_per_node": j.TRESPerNode, "tres_per_task": j.TRESPerTask,
		"current_working_directory": j.WorkDir,
		"standard_input":            j.StdIn, "standard_output": j.StdOut, "standard_error": j.StdErr,
	} {
		putText(b, name, value)
	}
	for name, value := range map[string]int64{
		"tasks": j.Tasks, "tasks_per_node": j.TasksPerNode, "cpus_per_task": j.CPUsPerTask,
	} {
		putCount(b, name, value)
	}
	modernAmounts(b, j)
	putIfSet(b, "requeue", j.Requeue)
	if j.Hold {
		b["hold"] = true
	}
	if len(j.SpankEnvironment) > 0 {
		b["spank_environment"] = envAssignments(j.SpankEnvironment)
	}
	if j.AppendLogs {
		b["open_mode"] = []string{"APPEND"}
	}
	return draft{body: b}
}

// modernAmounts adds the fields that are written as {"set","infinite","number"}.
func modernAmounts(b body, j JobSubmit) {
	for name, value := range map[string]int64{
		"memory_per_node": j.MemoryPerNode, "memory_per_cpu": j.MemoryPerCPU, "priority": j.Priority,
	} {
		if value != 0 {
			b[name] = numberBody(value)
		}
	}
	if j.MinNodes > 0 || j.MaxNodes > 0 {
		b["nodes"] = j.nodeCounts()
	}
	if j.TimeLimit.Set {
		b["time_limit"] = limitMinutes(j.TimeLimit)
	}
	if !j.BeginTime.IsZero() {
		b["begin_time"] = numberBody(j.BeginTime.Unix())
	}
}

func (modernVersion) nodeUpdate(u NodeUpdate) draft {
	b := body{}
	if u.State != nil {
		b["state"] = []string{*u.State}
	}
	putIfSet(b, "reason", u.Reason)
	putIfSet(b, "comment", u.Comment)
	if u.Weight != nil {
		b["weight"] = numberBody(*u.Weight)
	}
	return draft{body: b}
}

// noAbility returns the error for a feature that a version lacks.
func noAbility(d dialect, feature, needs string) error {
	return &UnsupportedError{
		Feature: feature,
		Needs:   needs,
		Found:   fmt.Sprintf("REST API %s", d.versionName()),
	}
}
