// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmresttest

import (
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// modernVersion is v0.0.40 and later, which Slurm's data_parser plugins write.
type modernVersion struct{ version string }

func (d modernVersion) canRequeue() bool         { return d.version == slurmrest.V0045 }
func (modernVersion) canUpdateNode() bool        { return true }
func (modernVersion) canUpdateTask() bool        { return false }
func (modernVersion) noChange() int              { return http.StatusOK }
func (modernVersion) qosName() string            { return "qos" }
func (modernVersion) unknownKey(object) *refusal { return nil } // a warning at most

func (d modernVersion) wrapResult(s *Server, result object) object {
	parts := append(strings.Split(s.opt.Release, "."), "0", "0", "0")
	result["meta"] = object{
		"plugin": object{"type": "openapi/slurmctld", "data_parser": "data_parser/" + d.version},
		"client": object{"source": "", "user": "root", "group": "root"}, "command": []string{},
		"slurm": object{
			"version": object{"major": parts[0], "minor": parts[1], "micro": parts[2]},
			"release": s.opt.Release, "cluster": s.opt.Cluster,
		},
	}
	for _, list := range []string{"errors", "warnings"} {
		if result[list] == nil {
			result[list] = []any{}
		}
	}
	return result
}

func (modernVersion) listComplaints(no *refusal) []any {
	return []any{object{
		"description": no.why, "error_number": no.number, "error": texts[no.number], "source": "fake",
	}}
}

func (modernVersion) statusOf(no *refusal) int {
	switch {
	case no.status != 0:
		return no.status
	case no.number == 9000:
		return http.StatusUnprocessableEntity
	case no.number == 1007:
		return http.StatusNetworkAuthenticationRequired
	case no.number == 7000:
		return http.StatusBadGateway
	}
	return http.StatusInternalServerError
}

// parseSince: v0.0.40 reads an instant with sbatch's parser.
func (d modernVersion) parseSince(text string) (int64, bool) {
	digits, uts := strings.CutPrefix(text, "uts")
	unix, err := strconv.ParseInt(digits, 10, 64)
	return unix, err == nil && uts == (d.version == slurmrest.V0040)
}

func (modernVersion) badToken(db bool) *refusal {
	if db {
		return newRefusal(7000, "Failed to open slurmdbd connection")
	}
	return newRefusal(1007, "Unable to query jobs")
}

// unknownNode is the answer about an unknown node. Its HTTP status is 200, and its error has no
// number of Slurm's.
func (d modernVersion) unknownNode() object {
	return object{"errors": d.listComplaints(newRefusal(0, "Failure to query node"))}
}

// signalAnswer: v0.0.40 does not say that there was no such job.
func (d modernVersion) signalAnswer(unknown slurmrest.Ref) object {
	if d.version == slurmrest.V0040 {
		return object{}
	}
	status := []any{}
	if unknown != (slurmrest.Ref{}) {
		status = append(status, object{
			"error":   object{"code": 2017, "message": texts[2017], "string": texts[2017]},
			"step_id": unknown.String(), "job_id": unsetNumber(), "federation": object{"sibling": ""},
		})
	}
	return object{"status": status}
}

func (d modernVersion) updateAnswer(*slurmrest.Job) object {
	if d.version == slurmrest.V0040 {
		return object{"results": []any{}, "job_id": "", "step_id": "", "job_submit_user_msg": ""}
	}
	return object{"results": nil}
}

func (modernVersion) jobEdits() []edit {
	text := func(key string, at func(*slurmrest.Job) *string) edit { return edit{key, true, setText(at)} }
	number := func(key string, at func(*slurmrest.Job) *slurmrest.Number) edit {
		return edit{key, true, setNumber(at)}
	}
	return []edit{
		text("partition", func(j *slurmrest.Job) *string { return &j.Partition }),
		text("qos", func(j *slurmrest.Job) *string { return &j.QOS }),
		text("account", func(j *slurmrest.Job) *string { return &j.Account }),
		text("required_nodes", func(j *slurmrest.Job) *string { return &j.RequiredNodes }),
		{"reservation", false, setText(func(j *slurmrest.Job) *string { return &j.Reservation })},
		text("tres_per_job", func(j *slurmrest.Job) *string { return &j.TRESPerJob }),
		text("tres_per_node", func(j *slurmrest.Job) *string { return &j.TRESPerNode }),
		text("tres_per_task", func(j *slurmrest.Job) *string { return &j.TRESPerTask }),
		text("excluded_nodes", func(j *slurmrest.Job) *string { return &j.ExcludedNodes }),
		{"comment", false, setText(func(j *slurmrest.Job) *string { return &j.Comment })},
		{"admin_comment", false, setText(func(j *slurmrest.Job) *string { return &j.AdminComment })},
		text("name", func(j *slurmrest.Job) *string { return &j.Name }),
		text("constraints", func(j *slurmrest.Job) *string { return &j.RequestedFeatures }),
		number("memory_per_node", func(j *slurmrest.Job) *slurmrest.Number { return &j.MemoryPerNode }),
		number("cpus_per_task", func(j *slurmrest.Job) *slurmrest.Number { return &j.CPUsPerTask }),
		number("nodes", func(j *slurmrest.Job) *slurmrest.Number { return &j.NodeCount }),
		number("minimum_nodes", func(j *slurmrest.Job) *slurmrest.Number { return &j.NodeCount }),
		number("maximum_nodes", func(j *slurmrest.Job) *slurmrest.Number { return &j.MaxNodes }),
		number("tasks", func(j *slurmrest.Job) *slurmrest.Number { return &j.Tasks }),
		number("tasks_per_node", func(j *slurmrest.Job) *slurmrest.Number { return &j.TasksPerNode }),
		number("minimum_cpus_per_node", func(j *slurmrest.Job) *slurmrest.Number { return &j.MinCPUsPerNode }),
		{"time_limit", false, setLimit},
		{"requeue", false, func(j *slurmrest.Job, v any, _ time.Time) { j.Requeueable = v == true }},
		{"priority", false, setNumber(func(j *slurmrest.Job) *slurmrest.Number { return &j.Priority })},
		{"hold", false, setHold},
		text("dependency", func(j *slurmrest.Job) *string { return &j.Dependency }),
		{"begin_time", true, setBegin},
	}
}

func (d modernVersion) submitEdits() []edit {
	return append(d.jobEdits(), oldVersion{}.submitEdits()[len(oldVersion{}.jobEdits()):]...)
}

func unsetNumber() object { return object{"set": false, "infinite": false, "number": 0} }

// numberObject is a number that may be unset or infinite.
func numberObject(n slurmrest.Number) object {
	return object{"set": n.Set && !n.Infinite, "infinite": n.Infinite, "number": n.Or(0)}
}

func countObject(n int64) object { return numberObject(slurmrest.Num(n)) }

func timeObject(t time.Time) object { return countObject(unixSeconds(t)) }

func (d modernVersion) jobList(s *Server, jobs []*slurmrest.Job) object {
	list := []any{}
	for _, j := range jobs {
		list = append(list, d.jobObject(j))
	}
	return object{"jobs": list, "last_backfill": timeObject(s.currentTime()), "last_update": timeObject(s.currentTime())}
}

func (d modernVersion) jobObject(j *slurmrest.Job) object {
	o := commonFields(j)
	maps.Copy(o, object{
		"job_state": stateNames(j.State), "array_job_id": countObject(j.Array.JobID), "array_task_id": numberObject(j.Array.Task),
		"het_job_id": countObject(j.Het.JobID), "het_job_offset": countObject(j.Het.Offset),
		"priority": numberObject(j.Priority), "hold": j.Held,
		"exit_code": exitOf(j.ExitCode), "derived_exit_code": exitOf(j.DerivedExitCode),
		"scheduled_nodes": j.ScheduledNodes, "failed_node": j.FailedNode,
		"node_count": numberObject(j.NodeCount), "max_nodes": numberObject(j.MaxNodes), "tasks": numberObject(j.Tasks),
		"tasks_per_node": numberObject(j.TasksPerNode), "minimum_cpus_per_node": numberObject(j.MinCPUsPerNode), "cpus": numberObject(j.CPUs), "cpus_per_task": numberObject(j.CPUsPerTask),
		"memory_per_node": numberObject(j.MemoryPerNode), "memory_per_cpu": numberObject(j.MemoryPerCPU),
		"time_limit": numberObject(minutesOf(j.TimeLimit)), "time_minimum": numberObject(minutesOf(j.TimeMinimum)),
		"submit_time": timeObject(j.SubmitTime), "eligible_time": timeObject(j.EligibleTime), "start_time": timeObject(j.StartTime),
		"end_time": timeObject(j.EndTime), "preempt_time": timeObject(j.PreemptTime), "preemptable_time": timeObject(j.PreemptableTime),
		"suspend_time": timeObject(j.SuspendTime), "resize_time": timeObject(j.ResizeTime), "deadline": timeObject(j.Deadline),
		"tres_per_job": j.TRESPerJob, "tres_per_node": j.TRESPerNode,
		"tres_per_socket": j.TRESPerSocket, "tres_per_task": j.TRESPerTask,
		"job_resources": d.resourceObject(j),
	})
	return o
}

func exitOf(e slurmrest.ExitCode) object {
	status := "SUCCESS"
	if e != (slurmrest.ExitCode{}) {
		status = "ERROR"
	}
	return object{
		"status": []string{status}, "return_code": countObject(e.Code),
		"signal": object{"id": countObject(e.Signal), "name": ""},
	}
}

// resourceObject are nested from v0.0.41 on.
func (d modernVersion) resourceObject(j *slurmrest.Job) any {
	switch {
	case d.version == slurmrest.V0040 && j.Nodes == "":
		return object{}
	case d.version == slurmrest.V0040:
		return flatResources(j)
	case j.Nodes == "":
		return nil
	}
	return object{
		"select_type": []string{"CPU", "MEMORY"}, "cpus": len(j.Layout), "threads_per_core": unsetNumber(),
		"nodes": object{
			"count": len(j.Layout), "select_type": []string{"AVAILABLE"}, "list": j.Nodes, "whole": false,
			"allocation": renderEach(j.Layout, func(n slurmrest.NodeLayout) object {
				return object{
					"index": 0, "name": n.Node, "cpus": object{"count": n.CPUs, "used": 0},
					"memory": object{"used": 0, "allocated": n.Memory}, "sockets": []any{},
				}
			}),
		},
	}
}

func (d modernVersion) nodeObject(n slurmrest.Node) object {
	return object{
		"name": n.Name, "hostname": n.Hostname, "address": n.Address,
		"state":  append([]string{n.State.Base}, n.State.Flags...),
		"reason": n.Reason, "reason_set_by_user": n.ReasonBy, "reason_changed_at": timeObject(n.ReasonTime),
		"comment": n.Comment, "partitions": orEmpty(n.Partitions),
		"features": orEmpty(n.Features), "active_features": orEmpty(n.ActiveFeatures),
		"gres": n.GRES, "gres_used": n.GRESUsed, "tres": n.TRES, "tres_used": n.TRESUsed,
		"cpus": n.CPUs, "alloc_cpus": n.AllocatedCPUs, "real_memory": n.RealMemory,
		"alloc_memory": n.AllocatedMemory, "free_mem": numberObject(n.FreeMemory),
		"sockets": n.Sockets, "cores": n.Cores, "threads": n.Threads, "weight": n.Weight,
		"version": n.Version, "boot_time": timeObject(n.BootTime),
		"slurmd_start_time": timeObject(n.SlurmdStartTime), "last_busy": timeObject(n.LastBusy), "port": 6818,
	}
}

func (d modernVersion) partitionObject(p slurmrest.Partition) object {
	o := object{
		"name": p.Name, "partition": object{"state": []string{p.State}},
		"nodes": object{"configured": p.Nodes, "total": p.TotalNodes, "allowed_allocation": ""},
		"cpus":  object{"total": p.TotalCPUs}, "tres": object{"configured": p.TRES},
		"qos": object{"assigned": p.QOS, "allowed": p.AllowedQOS}, "accounts": object{"allowed": p.AllowedAccount},
		"maximums": object{"time": numberObject(minutesOf(p.MaxTime)), "nodes": numberObject(p.MaxNodes)},
		"minimums": object{"nodes": p.MinNodes}, "defaults": object{"time": numberObject(minutesOf(p.DefaultTime))},
		"priority":   object{"tier": p.PriorityTier, "job_factor": p.PriorityFactor},
		"grace_time": int64(p.GraceTime / time.Second),
	}
	if d.version == slurmrest.V0045 {
		o["preempt_mode"] = orEmpty(p.PreemptMode)
	}
	return o
}

func (modernVersion) reservationObject(r slurmrest.Reservation) object {
	o := oldVersion{}.reservationObject(r)
	o["start_time"], o["end_time"] = timeObject(r.Start), timeObject(r.End)
	return o
}

func (modernVersion) qosRecord(q slurmrest.QOS) object {
	return qosOf(q, func(n slurmrest.Number) any { return numberObject(n) })
}

// qosOf is a QOS; write decides how numbers are written.
func qosOf(q slurmrest.QOS, write func(slurmrest.Number) any) object {
	return object{
		"name": q.Name, "id": q.ID, "description": q.Description, "priority": write(q.Priority),
		"flags": orEmpty(q.Flags),
		"preempt": object{
			"list": orEmpty(q.Preempts), "mode": orEmpty(q.PreemptMode),
			"exempt_time": write(slurmrest.Number{
				Value: int64(q.PreemptExempt.Duration / time.Second), Set: q.PreemptExempt.Set, Infinite: q.PreemptExempt.Infinite,
			}),
		},
		"limits": object{
			"grace_time": int64(q.GraceTime / time.Second),
			"max": object{
				"wall_clock": object{"per": object{"job": write(minutesOf(q.MaxWallPerJob))}},
				"tres": object{
					"total": qosTRES(q.GroupTRES),
					"per":   object{"job": qosTRES(q.MaxTRESPerJob), "user": qosTRES(q.MaxTRESOfUser)},
				},
			},
			"min": object{"tres": object{"per": object{"job": qosTRES(q.MinTRESPerJob)}}},
		},
	}
}

func (d modernVersion) pingObject() object {
	ping := object{"hostname": "ctl", "latency": 100}
	if d.version != slurmrest.V0045 {
		ping["pinged"], ping["mode"] = "UP", "primary"
	}
	if d.version != slurmrest.V0040 {
		ping["responding"], ping["primary"] = true, true
	}
	if d.version == slurmrest.V0045 {
		ping["status"] = "No error"
	}
	return object{"pings": []any{ping}}
}

func (d modernVersion) diagObject(s *Server) object {
	o := diagOf(s, func(t time.Time) any { return timeObject(t) })
	if d.version == slurmrest.V0040 {
		delete(o, "bf_cycle_max")
	}
	return o
}

// diagOf is the statistics; the caller decides how times are written.
func diagOf(s *Server, write func(time.Time) any) object {
	o := object{"req_time": write(s.currentTime()), "req_time_start": write(s.currentTime()), "bf_active": false}
	for _, name := range []string{
		"server_thread_count", "agent_queue_size", "agent_thread_count", "dbd_agent_queue_size",
		"jobs_submitted", "jobs_started", "jobs_completed", "jobs_canceled", "jobs_failed",
		"schedule_cycle_last", "schedule_cycle_max", "schedule_cycle_mean", "schedule_cycle_total",
		"schedule_queue_length", "bf_cycle_last", "bf_cycle_max", "bf_cycle_mean", "bf_cycle_counter",
		"bf_queue_len", "bf_backfilled_jobs",
	} {
		o[name] = 0
	}
	pending, running := 0, 0
	for _, j := range s.jobs {
		switch j.State.Base {
		case slurmrest.Pending:
			pending++
		case slurmrest.Running:
			running++
		}
	}
	o["jobs_pending"], o["jobs_running"] = pending, running
	return o
}
