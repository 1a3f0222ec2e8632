// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmrest

import (
	"strings"
	"time"
)

// nodeFields are the members of a node record that versions share.
var nodeFields = table[Node]{
	"name":               textField(func(n *Node) *string { return &n.Name }),
	"hostname":           textField(func(n *Node) *string { return &n.Hostname }),
	"address":            textField(func(n *Node) *string { return &n.Address }),
	"state":              readNodeState,
	"reason":             textField(func(n *Node) *string { return &n.Reason }),
	"reason_set_by_user": textField(func(n *Node) *string { return &n.ReasonBy }),
	"reason_changed_at":  timeField(func(n *Node) *time.Time { return &n.ReasonTime }),
	"comment":            textField(func(n *Node) *string { return &n.Comment }),
	"partitions":         textsField(func(n *Node) *[]string { return &n.Partitions }),
	"features":           textsField(func(n *Node) *[]string { return &n.Features }),
	"active_features":    textsField(func(n *Node) *[]string { return &n.ActiveFeatures }),
	"gres":               textField(func(n *Node) *string { return &n.GRES }),
	"gres_used":          textField(func(n *Node) *string { return &n.GRESUsed }),
	"tres":               textField(func(n *Node) *string { return &n.TRES }),
	"tres_used":          textField(func(n *Node) *string { return &n.TRESUsed }),
	"cpus":               intField(func(n *Node) *int64 { return &n.CPUs }),
	"alloc_cpus":         intField(func(n *Node) *int64 { return &n.AllocatedCPUs }),
	"real_memory":        intField(func(n *Node) *int64 { return &n.RealMemory }),
	"alloc_memory":       intField(func(n *Node) *int64 { return &n.AllocatedMemory }),
	"sockets":            intField(func(n *Node) *int64 { return &n.Sockets }),
	"cores":              intField(func(n *Node) *int64 { return &n.Cores }),
	"threads":            intField(func(n *Node) *int64 { return &n.Threads }),
	"weight":             intField(func(n *Node) *int64 { return &n.Weight }),
	"boot_time":          timeField(func(n *Node) *time.Time { return &n.BootTime }),
	"slurmd_start_time":  timeField(func(n *Node) *time.Time { return &n.SlurmdStartTime }),
	"last_busy":          timeField(func(n *Node) *time.Time { return &n.LastBusy }),
}

// readNodeState reads "idle" (v0.0.38, with "state_flags" beside it) or
// ["IDLE","DRAIN"].
func readNodeState(s *scanner, n *Node) {
	if s.peekToken() != '[' {
		n.State.Base = strings.ToUpper(s.readText())
		return
	}
	if names := s.readTexts(); len(names) > 0 {
		n.State = NodeState{Base: names[0], Flags: names[1:]}
	}
}

// qosFields are the members of a QOS; versions agree on them.
var qosFields = table[QOS]{
	"name":        textField(func(q *QOS) *string { return &q.Name }),
	"id":          intField(func(q *QOS) *int64 { return &q.ID }),
	"description": textField(func(q *QOS) *string { return &q.Description }),
	"priority":    numberField(func(q *QOS) *Number { return &q.Priority }),
	"flags":       textsField(func(q *QOS) *[]string { return &q.Flags }),
	"preempt": objectField(table[QOS]{
		"list":        textsField(func(q *QOS) *[]string { return &q.Preempts }),
		"mode":        textsField(func(q *QOS) *[]string { return &q.PreemptMode }),
		"exempt_time": limitField(time.Second, func(q *QOS) *Limit { return &q.PreemptExempt }),
	}),
	"limits": objectField(table[QOS]{
		"grace_time": secondsField(func(q *QOS) *time.Duration { return &q.GraceTime }),
		"max": objectField(table[QOS]{
			"wall_clock": objectField(table[QOS]{"per": objectField(table[QOS]{
				"job": limitField(time.Minute, func(q *QOS) *Limit { return &q.MaxWallPerJob }),
			})}),
			"tres": objectField(table[QOS]{
				"total": tresField(func(q *QOS) *[]TRES { return &q.GroupTRES }),
				"per": objectField(table[QOS]{
					"job":  tresField(func(q *QOS) *[]TRES { return &q.MaxTRESPerJob }),
					"user": tresField(func(q *QOS) *[]TRES { return &q.MaxTRESOfUser }),
				}),
			}),
		}),
		"min": objectField(table[QOS]{"tres": objectField(table[QOS]{"per": objectField(table[QOS]{
			"job": tresField(func(q *QOS) *[]TRES { return &q.MinTRESPerJob }),
		})})}),
	}),
}

var tresFields = table[TRES]{
	"type":  textField(func(t *TRES) *string { return &t.Type }),
	"name":  textField(func(t *TRES) *string { return &t.Name }),
	"id":    intField(func(t *TRES) *int64 { return &t.ID }),
	"count": intField(func(t *TRES) *int64 { return &t.Count }),
}

const tresSize = 48 // bytes of a TRES

func tresField[T any](at func(*T) *[]TRES) field[T] {
	return func(s *scanner, t *T) {
		for s.beginGroup('['); s.hasNext(']'); {
			var one TRES
			tresFields.readObject(s, &one)
			if s.growBudget(tresSize) {
				*at(t) = append(*at(t), one)
			}
		}
	}
}

func secondsField[T any](at func(*T) *time.Duration) field[T] {
	return durationField(time.Second, at)
}

func durationField[T any](unit time.Duration, at func(*T) *time.Duration) field[T] {
	return func(s *scanner, t *T) { *at(t) = time.Duration(s.readNumber().Or(0)) * unit }
}

// reservationFields are the members of a reservation; versions agree on them.
var reservationFields = table[Reservation]{
	"name":       textField(func(r *Reservation) *string { return &r.Name }),
	"start_time": timeField(func(r *Reservation) *time.Time { return &r.Start }),
	"end_time":   timeField(func(r *Reservation) *time.Time { return &r.End }),
	"node_list":  hostsField(func(r *Reservation) *string { return &r.Nodes }),
	"node_count": intField(func(r *Reservation) *int64 { return &r.NodeCount }),
	"core_count": intField(func(r *Reservation) *int64 { return &r.CoreCount }),
	"partition":  textField(func(r *Reservation) *string { return &r.Partition }),
	"users":      textField(func(r *Reservation) *string { return &r.Users }),
	"accounts":   textField(func(r *Reservation) *string { return &r.Accounts }),
	"groups":     textField(func(r *Reservation) *string { return &r.Groups }),
	"features":   textField(func(r *Reservation) *string { return &r.Features }),
	"licenses":   textField(func(r *Reservation) *string { return &r.Licenses }),
	"tres":       textField(func(r *Reservation) *string { return &r.TRES }),
	"flags":      textsField(func(r *Reservation) *[]string { return &r.Flags }),
}

const microsecond = time.Microsecond

// diagFields are the members of the statistics; versions agree on them.
var diagFields = table[Diag]{
	"req_time":              timeField(func(d *Diag) *time.Time { return &d.At }),
	"req_time_start":        timeField(func(d *Diag) *time.Time { return &d.Since }),
	"server_thread_count":   intField(func(d *Diag) *int64 { return &d.ServerThreads }),
	"agent_queue_size":      intField(func(d *Diag) *int64 { return &d.AgentQueue }),
	"agent_thread_count":    intField(func(d *Diag) *int64 { return &d.AgentThreads }),
	"dbd_agent_queue_size":  intField(func(d *Diag) *int64 { return &d.DBDAgentQueue }),
	"jobs_submitted":        intField(func(d *Diag) *int64 { return &d.JobsSubmitted }),
	"jobs_started":          intField(func(d *Diag) *int64 { return &d.JobsStarted }),
	"jobs_completed":        intField(func(d *Diag) *int64 { return &d.JobsCompleted }),
	"jobs_canceled":         intField(func(d *Diag) *int64 { return &d.JobsCancelled }),
	"jobs_failed":           intField(func(d *Diag) *int64 { return &d.JobsFailed }),
	"jobs_pending":          intField(func(d *Diag) *int64 { return &d.JobsPending }),
	"jobs_running":          intField(func(d *Diag) *int64 { return &d.JobsRunning }),
	"schedule_cycle_last":   durationField(microsecond, func(d *Diag) *time.Duration { return &d.ScheduleCycleLast }),
	"schedule_cycle_max":    durationField(microsecond, func(d *Diag) *time.Duration { return &d.ScheduleCycleMax }),
	"schedule_cycle_mean":   durationField(microsecond, func(d *Diag) *time.Duration { return &d.ScheduleCycleMean }),
	"schedule_cycle_total":  intField(func(d *Diag) *int64 { return &d.ScheduleCycles }),
	"schedule_queue_length": intField(func(d *Diag) *int64 { return &d.ScheduleQueue }),
	"bf_active":             boolField(func(d *Diag) *bool { return &d.BackfillActive }),
	"bf_cycle_last":         durationField(microsecond, func(d *Diag) *time.Duration { return &d.BackfillCycleLast }),
	"bf_cycle_max":          durationField(microsecond, func(d *Diag) *time.Duration { return &d.BackfillCycleMax }),
	"bf_cycle_mean":         durationField(microsecond, func(d *Diag) *time.Duration { return &d.BackfillCycleMean }),
	"bf_cycle_counter":      intField(func(d *Diag) *int64 { return &d.BackfillCycles }),
	"bf_queue_len":          intField(func(d *Diag) *int64 { return &d.BackfillQueue }),
	"bf_backfilled_jobs":    intField(func(d *Diag) *int64 { return &d.BackfilledJobs }),
}

// controllerFields cover the names that versions have for the result of a ping: "ping":"UP"
// (v0.0.38), "pinged":"UP" (v0.0.40), "responding":true (v0.0.42 on).
var controllerFields = table[Controller]{
	"hostname":   textField(func(c *Controller) *string { return &c.Host }),
	"ping":       func(s *scanner, c *Controller) { c.Up = s.readText() == "UP" },
	"pinged":     func(s *scanner, c *Controller) { c.Up = s.readText() == "UP" },
	"responding": boolField(func(c *Controller) *bool { return &c.Up }),
	"mode":       func(s *scanner, c *Controller) { c.Primary = s.readText() == "primary" },
	"primary":    boolField(func(c *Controller) *bool { return &c.Primary }),
	"latency":    durationField(microsecond, func(c *Controller) *time.Duration { return &c.Latency }),
	"status":     readProblem,
}

// readProblem reads a number (v0.0.38; 0: no problem) or a text ("No error": no problem).
func readProblem(s *scanner, c *Controller) {
	if text := s.readText(); text != "0" && text != "No error" {
		c.Problem = text
	}
}
