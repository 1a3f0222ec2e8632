// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmresttest

import (
	"slices"
	"strings"
	"time"

	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// submitJob adds a pending job, or the components of a heterogeneous job.
func (s *Server) submitJob(q question) (object, *refusal) {
	request, no := parseObject(q.raw)
	if no != nil {
		return nil, no
	}
	if script, _ := request["script"].(string); script == "" {
		return nil, newRefusal(9000, "no script")
	}
	components, ok := request["jobs"].([]any)
	if !ok {
		components = []any{request["job"]}
	}
	leader := s.nextID
	for i, one := range components {
		fields, ok := one.(object)
		if !ok {
			return nil, newRefusal(9000, "no job")
		}
		if fields["environment"] == nil {
			return nil, newRefusal(9000, "environment must be set")
		}
		job := slurmrest.Job{User: "root", Partition: "main", QOS: "standard", Batch: true, Requeueable: true}
		if len(components) > 1 {
			job.Het = slurmrest.Het{JobID: leader, Offset: int64(i)}
		}
		if no := applyEdits(q.submitEdits(), &job, fields, s.currentTime()); no != nil {
			return nil, no
		}
		s.addJob(job)
	}
	return object{"job_id": leader, "step_id": "batch", "job_submit_user_msg": ""}, nil
}

// updateJob edits a job as slurmctld does: row by row, until a row is refused.
func (s *Server) updateJob(q question) (object, *refusal) {
	ref, no := refOf(q.rest)
	if no != nil {
		return nil, no
	}
	fields, no := parseObject(q.raw)
	if no != nil {
		return nil, no
	}
	if ref.IsTask() && !q.canUpdateTask() {
		return nil, newRefusal(9000, "Rejecting request. Submit job update against Array Job's JobID instead of array task id.")
	}
	if no := q.unknownKey(fields); no != nil {
		return nil, no
	}
	job, no := s.findJob(ref)
	if no != nil {
		return nil, no
	}
	if job.State.Finished() {
		return nil, newRefusal(2021, "job %d", job.ID)
	}
	s.lastChange = s.currentTime()
	if no := applyEdits(q.jobEdits(), job, fields, s.currentTime()); no != nil {
		return nil, no
	}
	return q.updateAnswer(job), nil
}

// edit is a row of the table of fields that an update can change.
type edit struct {
	key     string
	pending bool // refused unless the job is pending
	set     func(j *slurmrest.Job, value any, now time.Time)
}

// applyEdits makes the edits of the rows for which the request has a value.
func applyEdits(rows []edit, j *slurmrest.Job, fields object, now time.Time) *refusal {
	for _, row := range rows {
		value, given := fields[row.key]
		if !given {
			continue
		}
		if row.pending && !j.State.Editable() && j.State.Base != "" {
			return newRefusal(2073, "%s of job %d", row.key, j.ID)
		}
		row.set(j, value, now)
	}
	return nil
}

// setText is a row's set for a text.
func setText(at func(*slurmrest.Job) *string) func(*slurmrest.Job, any, time.Time) {
	return func(j *slurmrest.Job, value any, _ time.Time) {
		switch v := value.(type) {
		case string:
			*at(j) = v
		case []any:
			var all []string
			for _, one := range v {
				all = append(all, textOf(one))
			}
			*at(j) = strings.Join(all, ",")
		}
	}
}

func setNumber(at func(*slurmrest.Job) *slurmrest.Number) func(*slurmrest.Job, any, time.Time) {
	return func(j *slurmrest.Job, value any, _ time.Time) { *at(j) = numberOf(value) }
}

func setLimit(j *slurmrest.Job, value any, _ time.Time) {
	n := numberOf(value)
	j.TimeLimit = slurmrest.Limit{
		Set: n.Set, Infinite: n.Infinite, Duration: time.Duration(n.Value) * time.Minute,
	}
}

func setHold(j *slurmrest.Job, value any, _ time.Time) {
	j.Held, j.Priority, j.Reason = true, slurmrest.Num(0), "JobHeldUser"
	if value == false {
		j.Held, j.Priority, j.Reason = false, slurmrest.Num(1000), "None"
	}
}

func setBegin(j *slurmrest.Job, value any, now time.Time) {
	j.EligibleTime = time.Unix(numberOf(value).Value, 0)
	if j.EligibleTime.Before(now) {
		j.EligibleTime = now
	}
}

// signalJob ends a job on KILL and TERM and keeps the other signals.
func (s *Server) signalJob(q question) (object, *refusal) {
	ref, no := refOf(q.rest)
	if no != nil {
		return nil, no
	}
	job, no := s.findJob(ref)
	if no != nil {
		result := q.signalAnswer(ref)
		if result == nil {
			return nil, no
		}
		return result, nil
	}
	if job.State.Finished() {
		return q.signalAnswer(slurmrest.Ref{}), nil // counts as done
	}
	name := q.URL.Query().Get("signal")
	s.signals[job.ID] = append(s.signals[job.ID], name)
	if name == "KILL" || name == "TERM" || name == "" {
		job.State = slurmrest.State{Base: slurmrest.Cancelled}
		job.EndTime = s.currentTime()
	}
	s.lastChange = s.currentTime()
	return q.signalAnswer(slurmrest.Ref{}), nil
}

// requeueJobs is v0.0.45's POST jobs/requeue.
func (s *Server) requeueJobs(q question) (object, *refusal) {
	request, no := parseObject(q.raw)
	if no != nil {
		return nil, no
	}
	flags, _ := request["flags"].([]any)
	ids, _ := request["jobs"].([]any)
	for _, id := range ids {
		ref, no := refOf([]string{textOf(id)})
		if no == nil {
			no = s.requeueOne(ref, slices.Contains(flags, any("Hold")), slices.Contains(flags, any("Incomplete")))
		}
		if no != nil {
			return nil, no
		}
	}
	s.lastChange = s.currentTime()
	return object{"status": []any{}}, nil
}

func (s *Server) requeueOne(ref slurmrest.Ref, hold, incomplete bool) *refusal {
	job, no := s.findJob(ref)
	switch {
	case no != nil:
		return no
	case incomplete && job.State.Base != slurmrest.Running:
		return nil
	case job.State.Base == slurmrest.Pending:
		return newRefusal(2024, "job %s", ref)
	case !job.Requeueable:
		return newRefusal(2037, "job %s", ref)
	case !job.Batch:
		return newRefusal(2039, "job %s", ref)
	}
	requeueJob(job, hold)
	return nil
}

func (s *Server) getNode(q question) (object, *refusal) {
	for _, n := range s.nodes {
		if len(q.rest) == 1 && n.Name == q.rest[0] {
			return object{"nodes": []any{q.nodeObject(n)}}, nil
		}
	}
	if result := q.unknownNode(); result != nil {
		return result, nil
	}
	return nil, newRefusal(2018, "")
}

func (s *Server) updateNode(q question) (object, *refusal) {
	fields, no := parseObject(q.raw)
	if no != nil {
		return nil, no
	}
	for i := range s.nodes {
		if len(q.rest) == 1 && s.nodes[i].Name == q.rest[0] {
			return object{}, editNode(&s.nodes[i], fields, s.opt.Release)
		}
	}
	return nil, newRefusal(2018, "Failure to update node")
}

// editNode knows DRAIN, RESUME and DOWN.
func editNode(n *slurmrest.Node, fields object, release string) *refusal {
	states, _ := fields["state"].([]any)
	for _, state := range states {
		switch state {
		case "DRAIN":
			n.State.Flags = append(slices.Clone(n.State.Flags), "DRAIN")
		case "DOWN":
			n.State.Base = "DOWN"
		case "RESUME":
			if !n.State.Draining() && n.State.Base != "DOWN" {
				if strings.HasPrefix(release, "26.") {
					return newRefusal(2180, "Failure to update node %s", n.Name)
				}
				return newRefusal(2028, "Failure to update node %s", n.Name)
			}
			n.State = slurmrest.NodeState{Base: "IDLE"}
			n.Reason = ""
		}
	}
	if reason, ok := fields["reason"].(string); ok {
		n.Reason = reason
	}
	if comment, ok := fields["comment"].(string); ok {
		n.Comment = comment
	}
	return nil
}
