// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"strconv"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk/policypb"
)

// tables are the columns of nodes and of jobs, in both directions: those that share the table of
// texts, and at the same time the others. Large clusters have many.
func (c *columns) tables(pb *policypb.Snapshot, s *Snapshot) {
	others := &columns{decoding: c.decoding, base: c.base}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if len(s.Nodes) > 0 {
			nodeNumbers(others, pb.Nodes, s.Nodes)
		}
		if len(s.Jobs) > 0 {
			jobNumbers(others, pb.Jobs, s.Jobs)
		}
	}()
	if len(s.Nodes) > 0 {
		nodeTexts(c, pb.Nodes, s.Nodes)
	}
	if len(s.Jobs) > 0 {
		jobTexts(c, pb.Jobs, s.Jobs)
	}
	<-done
	if c.err == nil {
		c.err = others.err
	}
	if c.decoding {
		label(s.Jobs)
	}
}

func nodeTexts(c *columns, pb *policypb.Nodes, rows []Node) {
	if !c.decoding {
		pb.Name = make([]uint32, len(rows)) // always there: it says how many nodes there are
	}
	const name = "nodes.name"
	each(c, name, rows, &pb.Name,
		func(n *Node) uint32 { return c.add(n.Name) }, // no other has it
		func(n *Node, place uint32) { n.Name = c.text(name, place) })
	text(c, "nodes.reason", rows, &pb.Reason, func(n *Node) *string { return &n.Reason })
	partitions := lists(c, "nodes.partition_count", rows, &pb.PartitionCount, func(n *Node) *[]string { return &n.Partitions })
	text(c, "nodes.partitions", partitions, &pb.Partitions, itself)
	features := lists(c, "nodes.feature_count", rows, &pb.FeatureCount, func(n *Node) *[]string { return &n.Features })
	text(c, "nodes.features", features, &pb.Features, itself)

	gpus := lists(c, "nodes.gpu_count", rows, &pb.GpuCount, func(n *Node) *[]GPU { return &n.GPUs })
	text(c, "nodes.gpu_kind", gpus, &pb.GpuKind, func(g *GPU) *string { return &g.Kind })
	number(c, "nodes.gpu_health", gpus, &pb.GpuHealth, func(g *GPU) *Health { return &g.Health })
	same(c, "nodes.gpu_use", gpus, &pb.GpuUse, func(g *GPU) *float32 { return &g.Use })
	same(c, "nodes.gpu_watts", gpus, &pb.GpuWatts, func(g *GPU) *float32 { return &g.Watts })
	same(c, "nodes.gpu_limit", gpus, &pb.GpuLimit, func(g *GPU) *float32 { return &g.Limit })
}

func nodeNumbers(c *columns, pb *policypb.Nodes, rows []Node) {
	number(c, "nodes.state", rows, &pb.State, func(n *Node) *NodeState { return &n.State })
	moment(c, "nodes.since", rows, &pb.Since, func(n *Node) *time.Time { return &n.Since })
	number(c, "nodes.cpus", rows, &pb.Cpus, func(n *Node) *int { return &n.CPUs })
	number(c, "nodes.memory", rows, &pb.Memory, func(n *Node) *int64 { return &n.Memory })
	same(c, "nodes.watts", rows, &pb.Watts, func(n *Node) *float64 { return &n.Watts })
}

func jobTexts(c *columns, pb *policypb.Jobs, rows []Job) {
	labelColumn(c, pb, rows)
	text(c, "jobs.name", rows, &pb.Name, func(j *Job) *string { return &j.Name })
	text(c, "jobs.user", rows, &pb.User, func(j *Job) *string { return &j.User })
	text(c, "jobs.account", rows, &pb.Account, func(j *Job) *string { return &j.Account })
	text(c, "jobs.partition", rows, &pb.Partition, func(j *Job) *string { return &j.Partition })
	text(c, "jobs.qos", rows, &pb.Qos, func(j *Job) *string { return &j.QOS })
	text(c, "jobs.reservation", rows, &pb.Reservation, func(j *Job) *string { return &j.Reservation })
	text(c, "jobs.action", rows, &pb.Action, func(j *Job) *string { return &j.Action })
	text(c, "jobs.comment", rows, &pb.Comment, func(j *Job) *string { return &j.Comment })
	text(c, "jobs.obstacle", rows, &pb.Obstacle, func(j *Job) *string { return &j.Obstacle })
	text(c, "jobs.kind", rows, &pb.Kind, func(j *Job) *string { return &j.Kind })
	features := lists(c, "jobs.feature_count", rows, &pb.FeatureCount, func(j *Job) *[]string { return &j.Features })
	text(c, "jobs.features", features, &pb.Features, itself)
}

func jobNumbers(c *columns, pb *policypb.Jobs, rows []Job) {
	idColumn(c, pb, rows)
	number(c, "jobs.priority", rows, &pb.Priority, func(j *Job) *int64 { return &j.Priority })
	number(c, "jobs.gang", rows, &pb.Gang, func(j *Job) *JobID { return &j.Gang })
	number(c, "jobs.state", rows, &pb.State, func(j *Job) *JobState { return &j.State })
	number(c, "jobs.held_by", rows, &pb.HeldBy, func(j *Job) *Holder { return &j.HeldBy })
	number(c, "jobs.restarts", rows, &pb.Restarts, func(j *Job) *int { return &j.Restarts })
	number(c, "jobs.tier", rows, &pb.Tier, func(j *Job) *Tier { return &j.Tier })
	same(c, "jobs.promised", rows, &pb.Promised, func(j *Job) *float64 { return &j.Promised })
	same(c, "jobs.fraction", rows, &pb.Fraction, func(j *Job) *float64 { return &j.Fraction })
	span(c, "jobs.counted", rows, &pb.Counted, func(j *Job) *time.Duration { return &j.Counted })
	same(c, "jobs.preemptable", rows, &pb.Preemptable, func(j *Job) *bool { return &j.Preemptable })
	shapeColumns(c, pb, rows)
	moment(c, "jobs.submitted", rows, &pb.Submitted, func(j *Job) *time.Time { return &j.Submitted })
	moment(c, "jobs.eligible", rows, &pb.Eligible, func(j *Job) *time.Time { return &j.Eligible })
	moment(c, "jobs.started", rows, &pb.Started, func(j *Job) *time.Time { return &j.Started })
	span(c, "jobs.limit", rows, &pb.Limit, func(j *Job) *time.Duration { return &j.Limit })
	moment(c, "jobs.acted", rows, &pb.Acted, func(j *Job) *time.Time { return &j.Acted })
	moment(c, "jobs.checkpoint_at", rows, &pb.CheckpointAt, func(j *Job) *time.Time { return &j.Checkpoint.At })
	number(c, "jobs.checkpoint_bytes", rows, &pb.CheckpointBytes, func(j *Job) *int64 { return &j.Checkpoint.Bytes })
	span(c, "jobs.dump", rows, &pb.Dump, func(j *Job) *time.Duration { return &j.Checkpoint.Dump })
	span(c, "jobs.restore", rows, &pb.Restore, func(j *Job) *time.Duration { return &j.Checkpoint.Restore })
	same(c, "jobs.measured", rows, &pb.Measured, func(j *Job) *bool { return &j.Checkpoint.Measured })
}

// shapeColumns is what a job asks for and holds.
func shapeColumns(c *columns, pb *policypb.Jobs, rows []Job) {
	number(c, "jobs.tasks", rows, &pb.Tasks, func(j *Job) *int { return &j.Tasks })
	number(c, "jobs.capsules", rows, &pb.Capsules, func(j *Job) *int { return &j.Capsules })
	number(c, "jobs.cpus", rows, &pb.Cpus, func(j *Job) *int { return &j.CPUs })
	number(c, "jobs.memory", rows, &pb.Memory, func(j *Job) *int64 { return &j.Memory })
	number(c, "jobs.request", rows, &pb.Request, func(j *Job) *int { return &j.Request })
	number(c, "jobs.gpus", rows, &pb.Gpus, func(j *Job) *int { return &j.GPUs })
	number(c, "jobs.min_gpus", rows, &pb.MinGpus, func(j *Job) *int { return &j.MinGPUs })
	number(c, "jobs.max_gpus", rows, &pb.MaxGpus, func(j *Job) *int { return &j.MaxGPUs })
	required := lists(c, "jobs.required_count", rows, &pb.RequiredCount, func(j *Job) *[]int32 { return &j.Required })
	number(c, "jobs.required", required, &pb.Required, itself)
	excluded := lists(c, "jobs.excluded_count", rows, &pb.ExcludedCount, func(j *Job) *[]int32 { return &j.Excluded })
	number(c, "jobs.excluded", excluded, &pb.Excluded, itself)

	shares := lists(c, "jobs.share_count", rows, &pb.ShareCount, func(j *Job) *[]Share { return &j.Shares })
	number(c, "jobs.share_node", shares, &pb.ShareNode, func(s *Share) *int32 { return &s.Node })
	number(c, "jobs.share_capsules", shares, &pb.ShareCapsules, func(s *Share) *int32 { return &s.Capsules })
	number(c, "jobs.share_gpus", shares, &pb.ShareGpus, func(s *Share) *GPUSet { return &s.GPUs })
	number(c, "jobs.share_cpus", shares, &pb.ShareCpus, func(s *Share) *int32 { return &s.CPUs })
	number(c, "jobs.share_memory", shares, &pb.ShareMemory, func(s *Share) *int64 { return &s.Memory })
}

// idColumn is the ids: each as what it is more than the one before. It is always there.
func idColumn(c *columns, pb *policypb.Jobs, rows []Job) {
	var last JobID
	if c.decoding {
		for i, more := range pb.Id {
			last += JobID(more)
			rows[i].ID = last
		}
		return
	}
	pb.Id = make([]int64, len(rows))
	for i := range rows {
		pb.Id[i] = int64(rows[i].ID - last)
		last = rows[i].ID
	}
}

// labelColumn is the labels of jobs that are not just their ids: those of most jobs are.
func labelColumn(c *columns, pb *policypb.Jobs, rows []Job) {
	const name = "jobs.label"
	var room [20]byte
	each(c, name, rows, &pb.Label,
		func(j *Job) uint32 {
			if string(strconv.AppendInt(room[:0], int64(j.ID), 10)) == j.Label {
				return 0
			}
			return c.place(j.Label)
		},
		func(j *Job, place uint32) { j.Label = c.text(name, place) })
}

// label gives those that came without a label theirs.
func label(jobs []Job) {
	for i := range jobs {
		if j := &jobs[i]; j.Label == "" {
			j.Label = strconv.FormatInt(int64(j.ID), 10)
		}
	}
}

// encodeTables writes what a cluster has few of, row by row.
func (c *columns) encodeTables(pb *policypb.Snapshot, s *Snapshot) {
	for _, p := range s.Partitions {
		pb.Partitions = append(pb.Partitions, &policypb.Partition{Name: p.Name, Up: p.Up, Priority: p.Priority, MaxTime: p.MaxTime.Milliseconds()})
	}
	for _, q := range s.QOS {
		pb.Qos = append(pb.Qos, &policypb.QOS{Name: q.Name, Priority: q.Priority, Tier: uint32(q.Tier), MaxGpus: int64(q.MaxGPUs)})
	}
	for _, a := range s.Accounts {
		pb.Accounts = append(pb.Accounts, &policypb.Account{Name: a.Name, Fraction: a.Fraction, MaxGpus: int64(a.MaxGPUs)})
	}
	for _, r := range s.Reservations {
		pb.Reservations = append(pb.Reservations, &policypb.Reservation{
			Name: r.Name, Start: c.since(r.Start), End: c.since(r.End), Maintenance: r.Maintenance,
			Nodes: toWire(r.Nodes), Users: r.Users, Accounts: r.Accounts,
		})
	}
	for _, l := range s.Power.Caps {
		pb.Caps = append(pb.Caps, &policypb.Cap{Name: l.Name, Watts: l.Watts, Start: c.since(l.Start), End: c.since(l.End), Nodes: toWire(l.Nodes)})
	}
}

// decodeTables is the reverse of encodeTables.
func (c *columns) decodeTables(pb *policypb.Snapshot, s *Snapshot) {
	for _, p := range pb.GetPartitions() {
		s.Partitions = append(s.Partitions, Partition{Name: p.GetName(), Up: p.GetUp(), Priority: p.GetPriority(), MaxTime: milliseconds(p.GetMaxTime())})
	}
	for _, q := range pb.GetQos() {
		s.QOS = append(s.QOS, QOS{Name: q.GetName(), Priority: q.GetPriority(), Tier: Tier(min(q.GetTier(), 0xff)), MaxGPUs: int(q.GetMaxGpus())})
	}
	for _, a := range pb.GetAccounts() {
		s.Accounts = append(s.Accounts, Account{Name: a.GetName(), Fraction: a.GetFraction(), MaxGPUs: int(a.GetMaxGpus())})
	}
	for _, r := range pb.GetReservations() {
		s.Reservations = append(s.Reservations, Reservation{
			Name: r.GetName(), Start: c.at(r.GetStart()), End: c.at(r.GetEnd()), Maintenance: r.GetMaintenance(),
			Nodes: fromWire(r.GetNodes()), Users: r.GetUsers(), Accounts: r.GetAccounts(),
		})
	}
	for _, l := range pb.GetCaps() {
		s.Power.Caps = append(s.Power.Caps, Cap{Name: l.GetName(), Watts: l.GetWatts(), Start: c.at(l.GetStart()), End: c.at(l.GetEnd()), Nodes: fromWire(l.GetNodes())})
	}
}

// itself is the field of what is no struct.
func itself[V any](v *V) *V { return v }

func toWire(places []int32) []uint32 {
	wire := rowsOf[uint32](len(places))
	for i, p := range places {
		wire[i] = uint32(p)
	}
	return wire
}

// fromWire is the reverse of toWire. What is too large becomes negative, and Check says so.
func fromWire(wire []uint32) []int32 {
	places := rowsOf[int32](len(wire))
	for i, w := range wire {
		places[i] = int32(w)
	}
	return places
}
