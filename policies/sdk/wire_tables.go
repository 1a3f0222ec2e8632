// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"strconv"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk/policypb"
)

// allTables are the columns of nodes and of jobs, in both directions: first the columns that share
// the table of texts, and at the same time the rest. Large clusters have many rows.
func (c *columns) allTables(pb *policypb.Snapshot, s *Snapshot) {
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
		addLabels(s.Jobs)
	}
}

func nodeTexts(c *columns, pb *policypb.Nodes, rows []Node) {
	if !c.decoding {
		pb.Name = make([]uint32, len(rows)) // always present: its length is the number of nodes
	}
	const name = "nodes.name"
	eachRow(c, name, rows, &pb.Name,
		func(n *Node) uint32 { return c.addText(n.Name) }, // no other node has this name
		func(n *Node, place uint32) { n.Name = c.textAt(name, place) })
	textColumn(c, "nodes.reason", rows, &pb.Reason, func(n *Node) *string { return &n.Reason })
	partitions := listColumn(c, "nodes.partition_count", rows, &pb.PartitionCount, func(n *Node) *[]string { return &n.Partitions })
	textColumn(c, "nodes.partitions", partitions, &pb.Partitions, identityField)
	features := listColumn(c, "nodes.feature_count", rows, &pb.FeatureCount, func(n *Node) *[]string { return &n.Features })
	textColumn(c, "nodes.features", features, &pb.Features, identityField)

	gpus := listColumn(c, "nodes.gpu_count", rows, &pb.GpuCount, func(n *Node) *[]GPU { return &n.GPUs })
	textColumn(c, "nodes.gpu_kind", gpus, &pb.GpuKind, func(g *GPU) *string { return &g.Kind })
	numberColumn(c, "nodes.gpu_health", gpus, &pb.GpuHealth, func(g *GPU) *Health { return &g.Health })
	sameColumn(c, "nodes.gpu_use", gpus, &pb.GpuUse, func(g *GPU) *float32 { return &g.Use })
	sameColumn(c, "nodes.gpu_watts", gpus, &pb.GpuWatts, func(g *GPU) *float32 { return &g.Watts })
	sameColumn(c, "nodes.gpu_limit", gpus, &pb.GpuLimit, func(g *GPU) *float32 { return &g.Limit })
}

func nodeNumbers(c *columns, pb *policypb.Nodes, rows []Node) {
	numberColumn(c, "nodes.state", rows, &pb.State, func(n *Node) *NodeState { return &n.State })
	timeColumn(c, "nodes.since", rows, &pb.Since, func(n *Node) *time.Time { return &n.Since })
	numberColumn(c, "nodes.cpus", rows, &pb.Cpus, func(n *Node) *int { return &n.CPUs })
	numberColumn(c, "nodes.memory", rows, &pb.Memory, func(n *Node) *int64 { return &n.Memory })
	sameColumn(c, "nodes.watts", rows, &pb.Watts, func(n *Node) *float64 { return &n.Watts })
}

func jobTexts(c *columns, pb *policypb.Jobs, rows []Job) {
	labelColumn(c, pb, rows)
	textColumn(c, "jobs.name", rows, &pb.Name, func(j *Job) *string { return &j.Name })
	textColumn(c, "jobs.user", rows, &pb.User, func(j *Job) *string { return &j.User })
	textColumn(c, "jobs.account", rows, &pb.Account, func(j *Job) *string { return &j.Account })
	textColumn(c, "jobs.partition", rows, &pb.Partition, func(j *Job) *string { return &j.Partition })
	textColumn(c, "jobs.qos", rows, &pb.Qos, func(j *Job) *string { return &j.QOS })
	textColumn(c, "jobs.reservation", rows, &pb.Reservation, func(j *Job) *string { return &j.Reservation })
	textColumn(c, "jobs.action", rows, &pb.Action, func(j *Job) *string { return &j.Action })
	textColumn(c, "jobs.comment", rows, &pb.Comment, func(j *Job) *string { return &j.Comment })
	textColumn(c, "jobs.obstacle", rows, &pb.Obstacle, func(j *Job) *string { return &j.Obstacle })
	textColumn(c, "jobs.kind", rows, &pb.Kind, func(j *Job) *string { return &j.Kind })
	features := listColumn(c, "jobs.feature_count", rows, &pb.FeatureCount, func(j *Job) *[]string { return &j.Features })
	textColumn(c, "jobs.features", features, &pb.Features, identityField)
}

func jobNumbers(c *columns, pb *policypb.Jobs, rows []Job) {
	idColumn(c, pb, rows)
	numberColumn(c, "jobs.priority", rows, &pb.Priority, func(j *Job) *int64 { return &j.Priority })
	numberColumn(c, "jobs.gang", rows, &pb.Gang, func(j *Job) *JobID { return &j.Gang })
	numberColumn(c, "jobs.state", rows, &pb.State, func(j *Job) *JobState { return &j.State })
	numberColumn(c, "jobs.held_by", rows, &pb.HeldBy, func(j *Job) *Holder { return &j.HeldBy })
	numberColumn(c, "jobs.restarts", rows, &pb.Restarts, func(j *Job) *int { return &j.Restarts })
	numberColumn(c, "jobs.tier", rows, &pb.Tier, func(j *Job) *Tier { return &j.Tier })
	sameColumn(c, "jobs.promised", rows, &pb.Promised, func(j *Job) *float64 { return &j.Promised })
	sameColumn(c, "jobs.fraction", rows, &pb.Fraction, func(j *Job) *float64 { return &j.Fraction })
	durationColumn(c, "jobs.counted", rows, &pb.Counted, func(j *Job) *time.Duration { return &j.Counted })
	sameColumn(c, "jobs.preemptable", rows, &pb.Preemptable, func(j *Job) *bool { return &j.Preemptable })
	shapeColumns(c, pb, rows)
	timeColumn(c, "jobs.submitted", rows, &pb.Submitted, func(j *Job) *time.Time { return &j.Submitted })
	timeColumn(c, "jobs.eligible", rows, &pb.Eligible, func(j *Job) *time.Time { return &j.Eligible })
	timeColumn(c, "jobs.started", rows, &pb.Started, func(j *Job) *time.Time { return &j.Started })
	durationColumn(c, "jobs.limit", rows, &pb.Limit, func(j *Job) *time.Duration { return &j.Limit })
	timeColumn(c, "jobs.acted", rows, &pb.Acted, func(j *Job) *time.Time { return &j.Acted })
	timeColumn(c, "jobs.checkpoint_at", rows, &pb.CheckpointAt, func(j *Job) *time.Time { return &j.Checkpoint.At })
	numberColumn(c, "jobs.checkpoint_bytes", rows, &pb.CheckpointBytes, func(j *Job) *int64 { return &j.Checkpoint.Bytes })
	durationColumn(c, "jobs.dump", rows, &pb.Dump, func(j *Job) *time.Duration { return &j.Checkpoint.Dump })
	durationColumn(c, "jobs.restore", rows, &pb.Restore, func(j *Job) *time.Duration { return &j.Checkpoint.Restore })
	durationColumn(c, "jobs.pause_in_place", rows, &pb.PauseInPlace, func(j *Job) *time.Duration { return &j.PauseInPlace })
	sameColumn(c, "jobs.measured", rows, &pb.Measured, func(j *Job) *bool { return &j.Checkpoint.Measured })
}

// shapeColumns are the columns of a job's request and shares.
func shapeColumns(c *columns, pb *policypb.Jobs, rows []Job) {
	numberColumn(c, "jobs.tasks", rows, &pb.Tasks, func(j *Job) *int { return &j.Tasks })
	numberColumn(c, "jobs.capsules", rows, &pb.Capsules, func(j *Job) *int { return &j.Capsules })
	numberColumn(c, "jobs.cpus", rows, &pb.Cpus, func(j *Job) *int { return &j.CPUs })
	numberColumn(c, "jobs.memory", rows, &pb.Memory, func(j *Job) *int64 { return &j.Memory })
	numberColumn(c, "jobs.request", rows, &pb.Request, func(j *Job) *int { return &j.Request })
	numberColumn(c, "jobs.gpus", rows, &pb.Gpus, func(j *Job) *int { return &j.GPUs })
	numberColumn(c, "jobs.leased", rows, &pb.Leased, func(j *Job) *int { return &j.Leased })
	numberColumn(c, "jobs.min_gpus", rows, &pb.MinGpus, func(j *Job) *int { return &j.MinGPUs })
	numberColumn(c, "jobs.max_gpus", rows, &pb.MaxGpus, func(j *Job) *int { return &j.MaxGPUs })
	fullest := listColumn(c, "jobs.fullest_count", rows, &pb.FullestCount, func(j *Job) *[]float64 { return &j.Fullest })
	sameColumn(c, "jobs.fullest", fullest, &pb.Fullest, identityField)
	required := listColumn(c, "jobs.required_count", rows, &pb.RequiredCount, func(j *Job) *[]int32 { return &j.Required })
	numberColumn(c, "jobs.required", required, &pb.Required, identityField)
	excluded := listColumn(c, "jobs.excluded_count", rows, &pb.ExcludedCount, func(j *Job) *[]int32 { return &j.Excluded })
	numberColumn(c, "jobs.excluded", excluded, &pb.Excluded, identityField)

	shares := listColumn(c, "jobs.share_count", rows, &pb.ShareCount, func(j *Job) *[]Share { return &j.Shares })
	numberColumn(c, "jobs.share_node", shares, &pb.ShareNode, func(s *Share) *int32 { return &s.Node })
	numberColumn(c, "jobs.share_capsules", shares, &pb.ShareCapsules, func(s *Share) *int32 { return &s.Capsules })
	numberColumn(c, "jobs.share_gpus", shares, &pb.ShareGpus, func(s *Share) *GPUSet { return &s.GPUs })
	numberColumn(c, "jobs.share_cpus", shares, &pb.ShareCpus, func(s *Share) *int32 { return &s.CPUs })
	numberColumn(c, "jobs.share_memory", shares, &pb.ShareMemory, func(s *Share) *int64 { return &s.Memory })
}

// idColumn is the ids: each as the difference from the id before. It is always present.
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

// labelColumn is the labels of jobs that are not just their ids: most labels are.
func labelColumn(c *columns, pb *policypb.Jobs, rows []Job) {
	const name = "jobs.label"
	var room [20]byte
	eachRow(c, name, rows, &pb.Label,
		func(j *Job) uint32 {
			if string(strconv.AppendInt(room[:0], int64(j.ID), 10)) == j.Label {
				return 0
			}
			return c.textPlace(j.Label)
		},
		func(j *Job, place uint32) { j.Label = c.textAt(name, place) })
}

// addLabels adds the labels of jobs that came without a label.
func addLabels(jobs []Job) {
	for i := range jobs {
		if j := &jobs[i]; j.Label == "" {
			j.Label = strconv.FormatInt(int64(j.ID), 10)
		}
	}
}

// encodeTables writes the short lists of a cluster, row by row.
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
			Name: r.Name, Start: c.sinceBase(r.Start), End: c.sinceBase(r.End), Maintenance: r.Maintenance,
			Nodes: toWire(r.Nodes), Users: r.Users, Accounts: r.Accounts,
		})
	}
	for _, l := range s.Power.Caps {
		pb.Caps = append(pb.Caps, &policypb.Cap{Name: l.Name, Watts: l.Watts, Start: c.sinceBase(l.Start), End: c.sinceBase(l.End), Nodes: toWire(l.Nodes)})
	}
}

// decodeTables is the reverse of encodeTables.
func (c *columns) decodeTables(pb *policypb.Snapshot, s *Snapshot) {
	for _, p := range pb.GetPartitions() {
		s.Partitions = append(s.Partitions, Partition{Name: p.GetName(), Up: p.GetUp(), Priority: p.GetPriority(), MaxTime: durationOf(p.GetMaxTime())})
	}
	for _, q := range pb.GetQos() {
		s.QOS = append(s.QOS, QOS{Name: q.GetName(), Priority: q.GetPriority(), Tier: Tier(min(q.GetTier(), 0xff)), MaxGPUs: int(q.GetMaxGpus())})
	}
	for _, a := range pb.GetAccounts() {
		s.Accounts = append(s.Accounts, Account{Name: a.GetName(), Fraction: a.GetFraction(), MaxGPUs: int(a.GetMaxGpus())})
	}
	for _, r := range pb.GetReservations() {
		s.Reservations = append(s.Reservations, Reservation{
			Name: r.GetName(), Start: c.timeAt(r.GetStart()), End: c.timeAt(r.GetEnd()), Maintenance: r.GetMaintenance(),
			Nodes: fromWire(r.GetNodes()), Users: r.GetUsers(), Accounts: r.GetAccounts(),
		})
	}
	for _, l := range pb.GetCaps() {
		s.Power.Caps = append(s.Power.Caps, Cap{Name: l.GetName(), Watts: l.GetWatts(), Start: c.timeAt(l.GetStart()), End: c.timeAt(l.GetEnd()), Nodes: fromWire(l.GetNodes())})
	}
}

// identityField is the field of a value that is no struct.
func identityField[V any](v *V) *V { return v }

func toWire(places []int32) []uint32 {
	wire := rowsOf[uint32](len(places))
	for i, p := range places {
		wire[i] = uint32(p)
	}
	return wire
}

// fromWire is the reverse of toWire. A number that is too large becomes negative, and Check says so.
func fromWire(wire []uint32) []int32 {
	places := rowsOf[int32](len(wire))
	for i, w := range wire {
		places[i] = int32(w)
	}
	return places
}
