// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmresttest

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// oldVersion is v0.0.38, which 22.05 writes by hand.
type oldVersion struct{}

func (oldVersion) canRequeue() bool    { return false }
func (oldVersion) canUpdateNode() bool { return false }
func (oldVersion) canUpdateTask() bool { return true }
func (oldVersion) noChange() int       { return http.StatusNotModified }
func (oldVersion) qosName() string     { return "QOS" }

func (oldVersion) wrapResult(s *Server, result object) object {
	result["meta"] = object{
		"plugin": object{"type": "openapi/v0.0.38", "name": "Slurm OpenAPI v0.0.38"},
		"Slurm":  object{"version": versionNumbers(s.opt.Release), "release": s.opt.Release},
	}
	if result["errors"] == nil {
		result["errors"] = []any{}
	}
	return result
}

// versionNumbers are integers in v0.0.38.
func versionNumbers(release string) object {
	parts := append(strings.Split(release, "."), "0", "0", "0")
	return object{
		"major": numberOf(parts[0]).Value, "minor": numberOf(parts[1]).Value, "micro": numberOf(parts[2]).Value,
	}
}

// listComplaints writes complaints in the spelling of the endpoint.
func (oldVersion) listComplaints(no *refusal) []any {
	full := object{"description": no.why, "error_number": no.number, "error": texts[no.number], "source": "fake"}
	switch {
	case no.about == "node":
		return []any{object{"error": texts[no.number], "errno": no.number}}
	case no.about == "job submit":
		return []any{object{"error": texts[no.number], "error_code": no.number}}
	case no.number == 9001:
		return []any{object{"description": no.why, "source": "fake"}, full}
	}
	return []any{full}
}

func (oldVersion) parseSince(text string) (int64, bool) {
	unix, err := strconv.ParseInt(text, 10, 64)
	return unix, err == nil
}

// badToken: the refusal of slurmctld arrives without its reason.
func (oldVersion) badToken(db bool) *refusal {
	if db {
		return newRefusal(1007, "")
	}
	return newRefusal(-1, "Failed while looking for jobs")
}

func (oldVersion) unknownNode() object { return nil }

func (oldVersion) signalAnswer(unknown slurmrest.Ref) object {
	if unknown != (slurmrest.Ref{}) {
		return nil
	}
	return object{}
}

// statusOf: a body that cannot be parsed is a 200 with errors[], on purpose.
func (oldVersion) statusOf(no *refusal) int {
	switch no.number {
	case 9001:
		return http.StatusOK
	case 9000:
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}

func (d oldVersion) unknownKey(fields object) *refusal {
	for key := range fields {
		if !slices.ContainsFunc(d.jobEdits(), func(e edit) bool { return e.key == key }) {
			return newRefusal(9001, "Unknown key %q", key)
		}
	}
	return nil
}

// updateAnswer: the outcomes of an array's tasks are taken for errors.
func (oldVersion) updateAnswer(j *slurmrest.Job) object {
	if j.Array.JobID == 0 {
		return object{}
	}
	return object{"errors": []any{object{"description": "job array update from fake failed", "source": "_parse_job_list"}}}
}

func (oldVersion) jobEdits() []edit {
	text := func(key string, at func(*slurmrest.Job) *string) edit { return edit{key, true, setText(at)} }
	number := func(key string, at func(*slurmrest.Job) *slurmrest.Number) edit {
		return edit{key, true, setNumber(at)}
	}
	return []edit{
		text("partition", func(j *slurmrest.Job) *string { return &j.Partition }),
		text("qos", func(j *slurmrest.Job) *string { return &j.QOS }),
		text("account", func(j *slurmrest.Job) *string { return &j.Account }),
		text("nodelist", func(j *slurmrest.Job) *string { return &j.RequiredNodes }),
		{"reservation", false, setText(func(j *slurmrest.Job) *string { return &j.Reservation })},
		{"gres", true, setOldGRES},
		{"gpus", true, setOldGPUs(func(j *slurmrest.Job) *string { return &j.TRESPerJob })},
		{"gpus_per_task", true, setOldGPUs(func(j *slurmrest.Job) *string { return &j.TRESPerTask })},
		text("exclude_nodes", func(j *slurmrest.Job) *string { return &j.ExcludedNodes }),
		{"comment", false, setText(func(j *slurmrest.Job) *string { return &j.Comment })},
		text("constraints", func(j *slurmrest.Job) *string { return &j.RequestedFeatures }),
		number("memory_per_node", func(j *slurmrest.Job) *slurmrest.Number { return &j.MemoryPerNode }),
		number("cpus_per_task", func(j *slurmrest.Job) *slurmrest.Number { return &j.CPUsPerTask }),
		{"nodes", true, setOldNodes},
		number("tasks", func(j *slurmrest.Job) *slurmrest.Number { return &j.Tasks }),
		number("tasks_per_node", func(j *slurmrest.Job) *slurmrest.Number { return &j.TasksPerNode }),
		number("minimum_cpus_per_node", func(j *slurmrest.Job) *slurmrest.Number { return &j.MinCPUsPerNode }),
		{"time_limit", false, setLimit},
		{"requeue", false, func(j *slurmrest.Job, _ any, _ time.Time) { j.Requeueable = true }},
		{"no_requeue", false, func(j *slurmrest.Job, _ any, _ time.Time) { j.Requeueable = false }},
		{"priority", false, setNumber(func(j *slurmrest.Job) *slurmrest.Number { return &j.Priority })},
		{"hold", false, setHold},
		text("dependency", func(j *slurmrest.Job) *string { return &j.Dependency }),
		{"begin_time", true, setOldBegin},
	}
}

func (d oldVersion) submitEdits() []edit {
	return append(d.jobEdits(),
		edit{"name", true, setText(func(j *slurmrest.Job) *string { return &j.Name })},
		edit{"array", true, setText(func(j *slurmrest.Job) *string { return &j.Array.Tasks })},
		edit{"current_working_directory", true, setText(func(j *slurmrest.Job) *string { return &j.WorkDir })},
		edit{"standard_output", true, setText(func(j *slurmrest.Job) *string { return &j.StdOut })},
		edit{"standard_error", true, setText(func(j *slurmrest.Job) *string { return &j.StdErr })},
	)
}

// setOldNodes: only a text is applied. Slurm parses a list and then ignores it.
func setOldNodes(j *slurmrest.Job, value any, _ time.Time) {
	if text, ok := value.(string); ok {
		j.NodeCount = numberOf(text)
	}
}

// setOldBegin: a bare integer is not an instant to sbatch's parser.
func setOldBegin(j *slurmrest.Job, value any, now time.Time) {
	if text, ok := value.(string); ok && strings.HasPrefix(text, "uts") {
		setBegin(j, value, now)
	}
}

func setOldGRES(j *slurmrest.Job, value any, _ time.Time) {
	j.TRESPerNode = "gres/" + strings.ReplaceAll(textOf(value), ",", ",gres/")
}

func setOldGPUs(at func(*slurmrest.Job) *string) func(*slurmrest.Job, any, time.Time) {
	return func(j *slurmrest.Job, value any, _ time.Time) { *at(j) = "gres/gpu:" + textOf(value) }
}

// nullableNumber is a number that may be null.
func nullableNumber(n slurmrest.Number) any {
	if !n.Set || n.Infinite {
		return nil
	}
	return n.Value
}

func (oldVersion) jobList(_ *Server, jobs []*slurmrest.Job) object {
	list := []any{}
	for _, j := range jobs {
		list = append(list, oldJob(j))
	}
	return object{"jobs": list}
}

// oldState is a single word: a flag hides the base, and of several flags the first in Slurm's order
// is shown.
func oldState(state slurmrest.State) string {
	names := stateNames(state)
	return names[min(1, len(names)-1)]
}

func oldTRES(text string) string { return strings.ReplaceAll(text, "gres/", "gres:") }

func oldJob(j *slurmrest.Job) object {
	o := commonFields(j)
	maps.Copy(o, object{
		"job_state": oldState(j.State), "array_job_id": j.Array.JobID, "array_task_id": nullableNumber(j.Array.Task),
		"het_job_id": j.Het.JobID, "het_job_offset": j.Het.Offset, "priority": nullableNumber(j.Priority),
		"exit_code":         j.ExitCode.Code<<8 | j.ExitCode.Signal,
		"derived_exit_code": j.DerivedExitCode.Code<<8 | j.DerivedExitCode.Signal,
		"node_count":        j.NodeCount.Or(0), "max_nodes": j.MaxNodes.Or(0), "tasks": nullableNumber(j.Tasks),
		"tasks_per_node": j.TasksPerNode.Or(0), "minimum_cpus_per_node": j.MinCPUsPerNode.Or(0), "cpus": nullableNumber(j.CPUs), "cpus_per_task": nullableNumber(j.CPUsPerTask),
		"memory_per_node": nullableNumber(j.MemoryPerNode), "memory_per_cpu": nullableNumber(j.MemoryPerCPU),
		"time_limit": nullableNumber(minutesOf(j.TimeLimit)), "time_minimum": minutesOf(j.TimeMinimum).Or(0),
		"submit_time": unixSeconds(j.SubmitTime), "eligible_time": unixSeconds(j.EligibleTime),
		"start_time": unixSeconds(j.StartTime), "end_time": unixSeconds(j.EndTime), "preempt_time": unixSeconds(j.PreemptTime),
		"suspend_time": unixSeconds(j.SuspendTime), "resize_time": unixSeconds(j.ResizeTime), "deadline": unixSeconds(j.Deadline),
		"tres_per_job": oldTRES(j.TRESPerJob), "tres_per_node": oldTRES(j.TRESPerNode),
		"tres_per_socket": oldTRES(j.TRESPerSocket), "tres_per_task": oldTRES(j.TRESPerTask),
	})
	if j.Nodes != "" {
		o["job_resources"] = flatResources(j)
	}
	return o
}

// flatResources is the shape up to v0.0.40.
func flatResources(j *slurmrest.Job) object {
	return object{
		"nodes": j.Nodes, "allocated_hosts": len(j.Layout),
		"allocated_nodes": renderEach(j.Layout, func(n slurmrest.NodeLayout) object {
			return object{
				"nodename": n.Node, "cpus_used": n.CPUs, "memory_used": 0, "memory_allocated": n.Memory,
				"sockets": object{"0": object{"cores": object{"0": "allocated"}}},
			}
		}),
	}
}

func minutesOf(l slurmrest.Limit) slurmrest.Number {
	return slurmrest.Number{Value: int64(l.Duration / time.Minute), Set: l.Set, Infinite: l.Infinite}
}

func (oldVersion) nodeObject(n slurmrest.Node) object {
	return object{
		"name": n.Name, "hostname": n.Hostname, "address": n.Address,
		"state": strings.ToLower(n.State.Base), "state_flags": orEmpty(n.State.Flags),
		"reason": n.Reason, "reason_set_by_user": n.ReasonBy, "reason_changed_at": unixSeconds(n.ReasonTime),
		"comment": n.Comment, "partitions": orEmpty(n.Partitions),
		"features": strings.Join(n.Features, ","), "active_features": strings.Join(n.ActiveFeatures, ","),
		"gres": n.GRES, "gres_used": n.GRESUsed, "tres": n.TRES, "tres_used": n.TRESUsed,
		"cpus": n.CPUs, "alloc_cpus": n.AllocatedCPUs, "real_memory": n.RealMemory,
		"alloc_memory": n.AllocatedMemory, "free_memory": n.FreeMemory.Or(0),
		"sockets": n.Sockets, "cores": n.Cores, "threads": n.Threads, "weight": n.Weight,
		"slurmd_version": n.Version, "boot_time": unixSeconds(n.BootTime),
		"slurmd_start_time": unixSeconds(n.SlurmdStartTime), "last_busy": unixSeconds(n.LastBusy), "port": 6818,
	}
}

// minusOne is a number; -1 means that there is no bound.
func minusOne(n slurmrest.Number) any {
	if n.Infinite {
		return -1
	}
	return nullableNumber(n)
}

func (oldVersion) partitionObject(p slurmrest.Partition) object {
	return object{
		"name": p.Name, "state": p.State, "nodes": p.Nodes, "total_nodes": p.TotalNodes,
		"total_cpus": p.TotalCPUs, "tres": p.TRES, "qos": p.QOS, "allowed_qos": p.AllowedQOS,
		"allowed_accounts": p.AllowedAccount, "flags": []string{},
		"max_time_limit": minusOne(minutesOf(p.MaxTime)), "default_time_limit": minusOne(minutesOf(p.DefaultTime)),
		"min nodes per job": p.MinNodes, "maximum_nodes_per_job": minusOne(p.MaxNodes),
		"preemption_grace_time": int64(p.GraceTime / time.Second), "preemption_mode": orEmpty(p.PreemptMode),
		"priority_tier": p.PriorityTier, "priority_job_factor": p.PriorityFactor,
	}
}

func (oldVersion) reservationObject(r slurmrest.Reservation) object {
	return object{
		"name": r.Name, "start_time": unixSeconds(r.Start), "end_time": unixSeconds(r.End), "node_list": r.Nodes,
		"node_count": r.NodeCount, "core_count": r.CoreCount, "partition": r.Partition, "users": r.Users,
		"accounts": r.Accounts, "groups": r.Groups, "features": r.Features, "licenses": r.Licenses,
		"tres": r.TRES, "flags": orEmpty(r.Flags),
	}
}

func (oldVersion) qosRecord(q slurmrest.QOS) object {
	return qosOf(q, nullableNumber)
}

func (oldVersion) pingObject() object {
	return object{"pings": []any{object{"hostname": "ctl", "ping": "UP", "status": 0, "mode": "primary"}}}
}

func (oldVersion) diagObject(s *Server) object {
	return diagOf(s, func(t time.Time) any { return unixSeconds(t) })
}
