// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"errors"
	"fmt"
	"slices"
)

// Room is the free part of the nodes of a snapshot, for counting: which jobs would have room if this job left? A Room
// belongs to a single goroutine, and does not change the snapshot.
type Room struct {
	snapshot *Snapshot
	free     []Free
	kept     [][]int32 // reservations that keep a node, by node; places in Snapshot.Reservations
}

// Free is the part of a node that is left for jobs that start.
type Free struct {
	GPUs   GPUSet
	CPUs   int
	Memory int64
}

// NewRoom counts the free part of each node: all that the node has, less the shares of the jobs.
func NewRoom(s *Snapshot) *Room {
	r := &Room{snapshot: s, free: make([]Free, len(s.Nodes))}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		r.free[i] = Free{GPUs: n.Usable(), CPUs: n.CPUs, Memory: n.Memory}
	}
	for i := range s.Jobs {
		r.Take(s.Jobs[i].Shares)
	}
	if len(s.Reservations) > 0 {
		r.kept = make([][]int32, len(s.Nodes))
		for i := range s.Reservations {
			for _, n := range s.Reservations[i].Nodes {
				r.kept[n] = append(r.kept[n], int32(i))
			}
		}
	}
	return r
}

// Clone returns a copy of the room, of the same snapshot, that changes apart from r.
func (r *Room) Clone() *Room {
	clone := *r
	clone.free = slices.Clone(r.free)
	return &clone
}

// Free returns the free part of a node.
func (r *Room) Free(node int32) Free { return r.free[node] }

// Take removes shares from the free parts of their nodes.
func (r *Room) Take(shares []Share) {
	for _, s := range shares {
		f := &r.free[s.Node]
		f.GPUs &^= s.GPUs
		f.CPUs -= int(s.CPUs)
		f.Memory -= s.Memory
	}
}

// Give gives shares back. A GPU on which no job can start does not become free.
func (r *Room) Give(shares []Share) {
	for _, s := range shares {
		f := &r.free[s.Node]
		f.GPUs |= s.GPUs & r.snapshot.Nodes[s.Node].Usable()
		f.CPUs += int(s.CPUs)
		f.Memory += s.Memory
	}
}

// Forbids says why the job cannot be on the node however empty the node is; empty: it can.
func (r *Room) Forbids(j *Job, node int32) string {
	n := &r.snapshot.Nodes[node]
	switch {
	case n.State != NodeUp:
		return "is not up"
	case j.Partition != "" && !slices.Contains(n.Partitions, j.Partition):
		return "is not in partition " + j.Partition
	case len(j.Excluded) > 0 && slices.Contains(j.Excluded, node):
		return "is excluded by the job"
	case len(j.Required) >= j.Capsules && !slices.Contains(j.Required, node):
		return "is none of the nodes that the job must have"
	}
	for _, f := range j.Features {
		if !slices.Contains(n.Features, f) {
			return "lacks feature " + f
		}
	}
	return r.reservationFor(j, node)
}

// reservationFor says whether reservations keep the node from the job: a reservation that has not
// begun does if the job could still be there by then.
func (r *Room) reservationFor(j *Job, node int32) string {
	if len(r.kept) == 0 {
		if j.Reservation != "" {
			return "is not in reservation " + j.Reservation
		}
		return ""
	}
	inside := j.Reservation == ""
	for _, k := range r.kept[node] {
		res := &r.snapshot.Reservations[k]
		if res.Name == j.Reservation && !res.Maintenance {
			inside = true
			continue
		}
		over := !res.End.IsZero() && !res.End.After(r.snapshot.Time)
		later := j.Limit > 0 && res.Start.After(r.snapshot.Time.Add(j.Limit))
		if !over && !later {
			return "is kept by reservation " + res.Name
		}
	}
	if !inside {
		return "is not in reservation " + j.Reservation
	}
	return ""
}

// matchingGPUs returns the free GPUs that the job can use.
func (r *Room) matchingGPUs(j *Job, node int32) GPUSet {
	free := r.free[node].GPUs
	if j.Kind == "" || free == 0 {
		return free
	}
	for i, g := range r.snapshot.Nodes[node].GPUs {
		if g.Kind != j.Kind {
			free &^= 1 << i
		}
	}
	return free
}

// Seat says which shares the job would hold at these spots, or why the job cannot. Seat does not take the shares.
func (r *Room) Seat(j *Job, spots []Spot) ([]Share, error) {
	shares := make([]Share, 0, len(spots))
	for _, spot := range spots {
		node, ok := r.snapshot.Node(spot.Node)
		if !ok {
			return nil, fmt.Errorf("there is no node %q", spot.Node)
		}
		if why := r.Forbids(j, node); why != "" {
			return nil, fmt.Errorf("node %s %s", spot.Node, why)
		}
		share, err := r.shareOn(j, node, spot.Capsules, spot.GPUs)
		if err != nil {
			return nil, err
		}
		shares = append(shares, share)
	}
	slices.SortFunc(shares, func(a, b Share) int { return int(a.Node) - int(b.Node) })
	for i := range shares[:max(0, len(shares)-1)] {
		if shares[i].Node == shares[i+1].Node {
			return nil, fmt.Errorf("node %s is named twice", r.snapshot.Nodes[shares[i].Node].Name)
		}
	}
	if !containsRequiredNodes(shares, j.Required) {
		return nil, errors.New("not all nodes that the job must have are among them")
	}
	return shares, nil
}

// shareOn is a share on the node, if the node has room.
func (r *Room) shareOn(j *Job, node int32, capsules, gpus int) (Share, error) {
	free := r.free[node]
	matching := r.matchingGPUs(j, node)
	name := r.snapshot.Nodes[node].Name
	switch cpus, memory := capsules*j.CPUs, int64(capsules)*j.Memory; {
	case gpus > matching.Count():
		return Share{}, fmt.Errorf("node %s has %s free, not %d", name, CountOf(matching.Count(), "GPU"), gpus)
	case cpus > free.CPUs:
		return Share{}, fmt.Errorf("node %s has %d CPUs free, not %d", name, free.CPUs, cpus)
	case memory > free.Memory:
		return Share{}, fmt.Errorf("node %s has %d MiB free, not %d", name, free.Memory, memory)
	default:
		return Share{Node: node, Capsules: int32(capsules), GPUs: matching.First(gpus), CPUs: int32(cpus), Memory: memory}, nil
	}
}

// Find looks for nodes where the job has room with so many GPUs: as many nodes as the job has capsules if possible,
// fewer if necessary, the fullest that will do. Find returns nil without room. Nodes of which leaveOut is true are
// left out; leaveOut may be nil.
func (r *Room) Find(j *Job, gpus int, leaveOut func(node int32) bool) []Share {
	if j.Capsules < 1 {
		return nil
	}
	for each := 1; each <= j.Capsules; each++ {
		if j.Capsules%each != 0 || gpus*each%j.Capsules != 0 {
			continue
		}
		if shares := r.findNodes(j, each, gpus*each/j.Capsules, leaveOut); shares != nil {
			return shares
		}
	}
	return nil
}

// candidate is a node that a job could have.
type candidate struct {
	node int32
	must bool // the job must have the node
	left int  // GPUs, when the job is there
}

// findNodes looks for nodes with room for so many capsules and GPUs on each.
func (r *Room) findNodes(j *Job, capsules, gpus int, leaveOut func(int32) bool) []Share {
	var candidates []candidate
	for n := range r.free {
		node := int32(n)
		f := &r.free[n]
		if f.CPUs < capsules*j.CPUs || f.Memory < int64(capsules)*j.Memory || f.GPUs.Count() < gpus {
			continue
		}
		if leaveOut != nil && leaveOut(node) || r.Forbids(j, node) != "" {
			continue
		}
		if left := r.matchingGPUs(j, node).Count() - gpus; left >= 0 {
			candidates = append(candidates, candidate{node, slices.Contains(j.Required, node), left})
		}
	}
	need := j.Capsules / capsules
	if len(candidates) < need {
		return nil
	}
	slices.SortFunc(candidates, func(a, b candidate) int {
		switch {
		case a.must != b.must && a.must:
			return -1
		case a.must != b.must:
			return 1
		case a.left != b.left:
			return a.left - b.left
		}
		return int(a.node - b.node)
	})
	candidates = candidates[:need]
	slices.SortFunc(candidates, func(a, b candidate) int { return int(a.node - b.node) })
	shares := make([]Share, 0, need)
	for _, c := range candidates {
		share, err := r.shareOn(j, c.node, capsules, gpus)
		if err != nil {
			return nil // no obstacle: the node is a candidate
		}
		shares = append(shares, share)
	}
	if !containsRequiredNodes(shares, j.Required) {
		return nil
	}
	return shares
}

// containsRequiredNodes reports whether the nodes that a job must have are among its shares. If there are more such
// nodes than shares, each share must be on one of these nodes.
func containsRequiredNodes(shares []Share, required []int32) bool {
	n := 0
	for _, s := range shares {
		if slices.Contains(required, s.Node) {
			n++
		}
	}
	return n >= min(len(required), len(shares))
}

// Spots returns shares in the form in which an intent names them.
func (s *Snapshot) Spots(shares []Share) []Spot {
	spots := make([]Spot, len(shares))
	for i, share := range shares {
		spots[i] = Spot{Node: s.Nodes[share.Node].Name, Capsules: int(share.Capsules), GPUs: share.GPUs.Count()}
	}
	return spots
}
