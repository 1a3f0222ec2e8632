// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmresttest

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// dialect is a version of the API. The dialects are written from Slurm's side and share nothing with
// the client's.
type dialect interface {
	wrapResult(s *Server, result object) object
	listComplaints(*refusal) []any
	parseSince(text string) (unix int64, ok bool) // the value of update_time
	badToken(db bool) *refusal
	unknownNode() object
	signalAnswer(unknown slurmrest.Ref) object // a signal; to no job, if unknown is set
	statusOf(*refusal) int                     // of HTTP, for an error
	noChange() int                             // of HTTP

	canRequeue() bool
	canUpdateNode() bool
	canUpdateTask() bool
	unknownKey(fields object) *refusal
	jobEdits() []edit // in the order in which slurmctld applies them
	submitEdits() []edit
	updateAnswer(*slurmrest.Job) object

	jobList(s *Server, jobs []*slurmrest.Job) object
	nodeObject(slurmrest.Node) object
	partitionObject(slurmrest.Partition) object
	reservationObject(slurmrest.Reservation) object
	qosName() string
	qosRecord(slurmrest.QOS) object
	pingObject() object
	diagObject(*Server) object
}

// textOf is a JSON value as a text.
func textOf(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return v
	case float64:
		return strconv.FormatInt(int64(v), 10)
	}
	return fmt.Sprint(value)
}

// numberOf is a JSON value as a number: 5, "5", "uts5", {"set","infinite","number"}.
func numberOf(value any) slurmrest.Number {
	switch v := value.(type) {
	case float64:
		return slurmrest.Num(int64(v))
	case string:
		if v == "UNLIMITED" {
			return slurmrest.Number{Set: true, Infinite: true}
		}
		v, _, _ = strings.Cut(strings.TrimPrefix(v, "uts"), "-")
		n, err := strconv.ParseInt(v, 10, 64)
		return slurmrest.Number{Value: n, Set: err == nil}
	case object:
		if v["infinite"] == true {
			return slurmrest.Number{Set: true, Infinite: true}
		}
		n := numberOf(v["number"])
		n.Set = v["set"] == true
		return n
	}
	return slurmrest.Number{}
}

// unixSeconds is an instant in Slurm's form.
func unixSeconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

// stateNames is a state as a list, base first.
func stateNames(state slurmrest.State) []string {
	return strings.Split(state.String(), "+")
}

func orEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// commonFields are the members that all versions write alike.
func commonFields(j *slurmrest.Job) object {
	return object{
		"job_id": j.ID, "array_task_string": j.Array.Tasks, "het_job_id_set": j.Het.IDs,
		"federation_origin":          j.Federation.Origin,
		"federation_siblings_active": j.Federation.SiblingsActive,
		"federation_siblings_viable": j.Federation.SiblingsViable,
		"cluster":                    j.Cluster, "name": j.Name, "user_name": j.User, "user_id": j.UserID,
		"group_id": j.GroupID, "account": j.Account, "partition": j.Partition, "qos": j.QOS,
		"resv_name": j.Reservation, "features": j.RequestedFeatures, "dependency": j.Dependency,
		"state_reason": j.Reason, "state_description": j.ReasonDetail, "comment": j.Comment,
		"admin_comment": j.AdminComment, "system_comment": j.SystemComment,
		"restart_cnt": j.Restarts, "requeue": j.Requeueable, "batch_flag": j.Batch,
		"nodes": j.Nodes, "required_nodes": j.RequiredNodes, "excluded_nodes": j.ExcludedNodes,
		"batch_host": j.BatchHost, "tres_req_str": j.TRESRequested, "tres_alloc_str": j.TRESAllocated,
		"gres_detail": orEmpty(j.GRESDetail), "current_working_directory": j.WorkDir,
		"standard_input": j.StdIn, "standard_output": j.StdOut, "standard_error": j.StdErr,
		"licenses": "", "wckey": "", "mcs_label": "", // no client reads these
	}
}

// qosTRES is a list of TRES.
func qosTRES(list []slurmrest.TRES) []any {
	return renderEach(list, func(t slurmrest.TRES) object {
		return object{"type": t.Type, "name": t.Name, "id": t.ID, "count": t.Count}
	})
}
