// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmrest

import "time"

// jobFields are the members of a job record that are the same in every version, or
// whose shapes the scanner's lenient readers cover.
var jobFields = table[Job]{
	"job_id":                     intField(func(j *Job) *int64 { return &j.ID }),
	"array_job_id":               intField(func(j *Job) *int64 { return &j.Array.JobID }),
	"array_task_id":              numberField(func(j *Job) *Number { return &j.Array.Task }),
	"array_task_string":          textField(func(j *Job) *string { return &j.Array.Tasks }),
	"het_job_id":                 intField(func(j *Job) *int64 { return &j.Het.JobID }),
	"het_job_offset":             intField(func(j *Job) *int64 { return &j.Het.Offset }),
	"het_job_id_set":             textField(func(j *Job) *string { return &j.Het.IDs }),
	"federation_origin":          textField(func(j *Job) *string { return &j.Federation.Origin }),
	"federation_siblings_active": textField(func(j *Job) *string { return &j.Federation.SiblingsActive }),
	"federation_siblings_viable": textField(func(j *Job) *string { return &j.Federation.SiblingsViable }),
	"cluster":                    textField(func(j *Job) *string { return &j.Cluster }),

	"name":       textField(func(j *Job) *string { return &j.Name }),
	"user_name":  textField(func(j *Job) *string { return &j.User }),
	"user_id":    intField(func(j *Job) *int64 { return &j.UserID }),
	"group_id":   intField(func(j *Job) *int64 { return &j.GroupID }),
	"account":    textField(func(j *Job) *string { return &j.Account }),
	"partition":  textField(func(j *Job) *string { return &j.Partition }),
	"qos":        hostsField(func(j *Job) *string { return &j.QOS }), // was a list once
	"resv_name":  textField(func(j *Job) *string { return &j.Reservation }),
	"features":   textField(func(j *Job) *string { return &j.RequestedFeatures }),
	"dependency": textField(func(j *Job) *string { return &j.Dependency }),

	"job_state":         readState,
	"state_reason":      textField(func(j *Job) *string { return &j.Reason }),
	"state_description": textField(func(j *Job) *string { return &j.ReasonDetail }),
	"comment":           textField(func(j *Job) *string { return &j.Comment }),
	"admin_comment":     textField(func(j *Job) *string { return &j.AdminComment }),
	"system_comment":    textField(func(j *Job) *string { return &j.SystemComment }),
	"priority":          numberField(func(j *Job) *Number { return &j.Priority }),
	"hold":              boolField(func(j *Job) *bool { return &j.Held }),
	"restart_cnt":       intField(func(j *Job) *int64 { return &j.Restarts }),
	"requeue":           boolField(func(j *Job) *bool { return &j.Requeueable }),
	"batch_flag":        boolField(func(j *Job) *bool { return &j.Batch }),
	"exit_code":         exitField(func(j *Job) *ExitCode { return &j.ExitCode }),
	"derived_exit_code": exitField(func(j *Job) *ExitCode { return &j.DerivedExitCode }),

	"nodes":           hostsField(func(j *Job) *string { return &j.Nodes }),
	"required_nodes":  hostsField(func(j *Job) *string { return &j.RequiredNodes }),
	"excluded_nodes":  hostsField(func(j *Job) *string { return &j.ExcludedNodes }),
	"scheduled_nodes": hostsField(func(j *Job) *string { return &j.ScheduledNodes }),
	"batch_host":      textField(func(j *Job) *string { return &j.BatchHost }),
	"failed_node":     textField(func(j *Job) *string { return &j.FailedNode }),
	"node_count":      numberField(func(j *Job) *Number { return &j.NodeCount }),
	"max_nodes":       numberField(func(j *Job) *Number { return &j.MaxNodes }),
	"tasks":           numberField(func(j *Job) *Number { return &j.Tasks }),
	"tasks_per_node":  numberField(func(j *Job) *Number { return &j.TasksPerNode }),
	// The CPUs of the job's tasks on a node: Slurm raises this with the number of tasks, and does not
	// lower it again.
	"minimum_cpus_per_node": numberField(func(j *Job) *Number { return &j.MinCPUsPerNode }),
	"cpus":                  numberField(func(j *Job) *Number { return &j.CPUs }),
	"cpus_per_task":         numberField(func(j *Job) *Number { return &j.CPUsPerTask }),
	"memory_per_node":       numberField(func(j *Job) *Number { return &j.MemoryPerNode }),
	"memory_per_cpu":        numberField(func(j *Job) *Number { return &j.MemoryPerCPU }),
	"job_resources":         readResources,

	"tres_per_job":    tresText(func(j *Job) *string { return &j.TRESPerJob }),
	"tres_per_node":   tresText(func(j *Job) *string { return &j.TRESPerNode }),
	"tres_per_socket": tresText(func(j *Job) *string { return &j.TRESPerSocket }),
	"tres_per_task":   tresText(func(j *Job) *string { return &j.TRESPerTask }),
	"tres_req_str":    textField(func(j *Job) *string { return &j.TRESRequested }),
	"tres_alloc_str":  textField(func(j *Job) *string { return &j.TRESAllocated }),
	"gres_detail":     textsField(func(j *Job) *[]string { return &j.GRESDetail }),

	"time_limit":       limitField(time.Minute, func(j *Job) *Limit { return &j.TimeLimit }),
	"time_minimum":     limitField(time.Minute, func(j *Job) *Limit { return &j.TimeMinimum }),
	"submit_time":      timeField(func(j *Job) *time.Time { return &j.SubmitTime }),
	"eligible_time":    timeField(func(j *Job) *time.Time { return &j.EligibleTime }),
	"start_time":       timeField(func(j *Job) *time.Time { return &j.StartTime }),
	"end_time":         timeField(func(j *Job) *time.Time { return &j.EndTime }),
	"preempt_time":     timeField(func(j *Job) *time.Time { return &j.PreemptTime }),
	"preemptable_time": timeField(func(j *Job) *time.Time { return &j.PreemptableTime }),
	"suspend_time":     timeField(func(j *Job) *time.Time { return &j.SuspendTime }),
	"resize_time":      timeField(func(j *Job) *time.Time { return &j.ResizeTime }),
	"deadline":         timeField(func(j *Job) *time.Time { return &j.Deadline }),

	"current_working_directory": textField(func(j *Job) *string { return &j.WorkDir }),
	"standard_input":            textField(func(j *Job) *string { return &j.StdIn }),
	"standard_output":           textField(func(j *Job) *string { return &j.StdOut }),
	"standard_error":            textField(func(j *Job) *string { return &j.StdErr }),
}

// readState reads "RUNNING" (v0.0.38) or ["PENDING","COMPLETING"].
func readState(s *scanner, j *Job) {
	j.State = State{}
	if s.peekToken() != '[' {
		if name := s.readString(maxKey, "a state"); s.err == nil {
			j.State.addName(name)
			j.State.unhideBase()
		}
		return
	}
	for s.beginGroup('['); s.hasNext(']'); {
		if name := s.readString(maxKey, "a state"); s.err == nil {
			j.State.addName(name)
		}
	}
}

// exitField reads a wait status (v0.0.38) or
// {"status":[…],"return_code":{…},"signal":{"id":{…},"name":…}}.
func exitField[T any](at func(*T) *ExitCode) field[T] {
	return func(s *scanner, t *T) {
		e := at(t)
		if s.peekToken() != '{' {
			status := s.readNumber().Or(0)
			*e = ExitCode{Code: status >> 8 & 0xff, Signal: status & 0x7f}
			return
		}
		exitFields.readObject(s, e)
	}
}

var exitFields = table[ExitCode]{
	"return_code": intField(func(e *ExitCode) *int64 { return &e.Code }),
	"signal": objectOrPlain(table[ExitCode]{
		"id":        intField(func(e *ExitCode) *int64 { return &e.Signal }),
		"signal_id": intField(func(e *ExitCode) *int64 { return &e.Signal }),
	}, intField(func(e *ExitCode) *int64 { return &e.Signal })),
}

// resources are a job's nodes and CPUs, in two shapes: flat up to v0.0.40
// ("nodes":"n[1-2]","allocated_nodes":[…]), nested after
// ("nodes":{"list":…,"allocation":[…]}).
type resources struct {
	layout []NodeLayout
	cpus   int64 // of the whole job; flat only
	cores  int64 // likewise, counted
}

var resourceFields = table[resources]{
	"allocated_nodes": readLayout,
	"allocated_cpus":  readCPUs,
	"allocated_cores": readCPUs, // the same number, named for SelectTypeParameters
	"nodes":           objectOrPlain(table[resources]{"allocation": readLayout}, skipField[resources]),
}

func readResources(s *scanner, j *Job) {
	var r resources
	resourceFields.readObject(s, &r)
	if r.cores > 0 && r.cpus > 0 { // flat: a node's CPUs are known by its cores only
		for i := range r.layout {
			r.layout[i].CPUs = r.layout[i].CPUs * r.cpus / r.cores
		}
	}
	j.Layout = r.layout
}

func readCPUs(s *scanner, r *resources) { r.cpus = max(r.cpus, s.readNumber().Or(0)) }

func readLayout(s *scanner, r *resources) {
	for s.beginGroup('['); s.hasNext(']'); {
		var on NodeLayout
		layoutFields.readObject(s, &on)
		if s.growBudget(layoutSize) {
			r.layout = append(r.layout, on)
			r.cores += on.CPUs
		}
	}
}

const layoutSize = 32 // bytes of a NodeLayout

var layoutFields = table[NodeLayout]{
	"nodename":         textField(func(n *NodeLayout) *string { return &n.Node }),
	"sockets":          countCores,
	"memory_allocated": intField(func(n *NodeLayout) *int64 { return &n.Memory }),
	"name":             textField(func(n *NodeLayout) *string { return &n.Node }),
	"cpus": objectField(table[NodeLayout]{
		"count": intField(func(n *NodeLayout) *int64 { return &n.CPUs }),
	}),
	"memory": objectField(table[NodeLayout]{
		"allocated": intField(func(n *NodeLayout) *int64 { return &n.Memory }),
	}),
}

// countCores counts the cores of the flat shape,
// {"0":{"cores":{"0":"allocated","1":"allocated_and_in_use"}}}: only a job's own are
// listed. The nested shape's array says no more than its "cpus" do.
func countCores(s *scanner, n *NodeLayout) {
	if s.peekToken() != '{' {
		s.skipValue()
		return
	}
	for s.beginGroup('{'); s.hasNext('}'); {
		s.skipKey()
		for s.beginGroup('{'); s.hasNext('}'); {
			s.skipKey()
			for s.beginGroup('{'); s.hasNext('}'); s.skipValue() {
				s.skipKey()
				n.CPUs++
			}
		}
	}
}

func skipField[T any](s *scanner, _ *T) { s.skipValue() }
