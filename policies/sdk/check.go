// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"fmt"
	"math"
	"time"
)

// Check says whether a snapshot is as its doc promises: in order, every place within its list, and no GPU held twice
// or missing on its node. States that real clusters have are no error: a node may be down under a running job, and
// CPUs may be given out more than once.
func (s *Snapshot) Check() error {
	if err := s.checkNodes(); err != nil {
		return err
	}
	if err := s.checkJobs(); err != nil {
		return err
	}
	for _, q := range s.QOS {
		if q.Tier >= Tiers {
			return fmt.Errorf("QOS %s: there is no %v", q.Name, q.Tier)
		}
	}
	for _, r := range s.Reservations {
		if err := s.checkPlaces(r.Nodes); err != nil {
			return fmt.Errorf("reservation %s: %w", r.Name, err)
		}
	}
	for _, c := range s.Power.Caps {
		if err := s.checkPlaces(c.Nodes); err != nil {
			return fmt.Errorf("power cap %s: %w", c.Name, err)
		}
		if !isFinite(c.Watts) {
			return fmt.Errorf("power cap %s: %g watts", c.Name, c.Watts)
		}
	}
	return nil
}

func (s *Snapshot) checkNodes() error {
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if i > 0 && s.Nodes[i-1].Name >= n.Name {
			return fmt.Errorf("node %q comes after %q", n.Name, s.Nodes[i-1].Name)
		}
		if n.State > NodeDown {
			return fmt.Errorf("node %s: there is no state %d", n.Name, n.State)
		}
		if len(n.GPUs) > MaxGPUs {
			return fmt.Errorf("node %s: %d GPUs; %d is the most", n.Name, len(n.GPUs), MaxGPUs)
		}
		if !isFinite(n.Watts) {
			return fmt.Errorf("node %s: %g watts", n.Name, n.Watts)
		}
		for g := range n.GPUs {
			if err := n.GPUs[g].checkGPU(); err != nil {
				return fmt.Errorf("node %s: GPU %d: %w", n.Name, g, err)
			}
		}
	}
	return nil
}

func (g *GPU) checkGPU() error {
	if g.Health > HealthBad {
		return fmt.Errorf("there is no health %d", g.Health)
	}
	if !isFinite(float64(g.Use)) || !isFinite(float64(g.Watts)) || !isFinite(float64(g.Limit)) {
		return fmt.Errorf("use %g, %g of %g watts", g.Use, g.Watts, g.Limit)
	}
	return nil
}

func (s *Snapshot) checkJobs() error {
	held := make([]GPUSet, len(s.Nodes))
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if i > 0 && s.Jobs[i-1].ID >= j.ID {
			return fmt.Errorf("job %d comes after %d", j.ID, s.Jobs[i-1].ID)
		}
		if err := j.checkJob(); err != nil {
			return fmt.Errorf("job %d: %w", j.ID, err)
		}
		if err := s.checkShares(j, held); err != nil {
			return fmt.Errorf("job %d: %w", j.ID, err)
		}
	}
	return nil
}

func (j *Job) checkJob() error {
	switch {
	case j.State > Leaving:
		return fmt.Errorf("there is no state %d", j.State)
	case j.HeldBy > HeldByPreemptd:
		return fmt.Errorf("there is no holder %d", j.HeldBy)
	case j.Tier >= Tiers:
		return fmt.Errorf("there is no %v", j.Tier)
	case j.Capsules < 1:
		return fmt.Errorf("%d capsules", j.Capsules)
	case j.GPUs < 0 || j.Request < 0 || j.MinGPUs < 0 || j.MaxGPUs < j.MinGPUs:
		return fmt.Errorf("%d GPUs of %d, from %d to %d", j.GPUs, j.Request, j.MinGPUs, j.MaxGPUs)
	case j.Leased < 0 || j.Leased > j.GPUs:
		return fmt.Errorf("%d leased GPUs of %d", j.Leased, j.GPUs)
	case j.CPUs < 0 || j.Memory < 0 || j.Tasks < 0:
		return fmt.Errorf("%d CPUs, %d MiB, %d tasks", j.CPUs, j.Memory, j.Tasks)
	case !isFinite(j.Fraction) || !isFinite(j.Promised):
		return fmt.Errorf("GPU fraction %g of %g", j.Fraction, j.Promised)
	}
	for _, part := range j.Fullest {
		if !isFinite(part) || part < 0 {
			return fmt.Errorf("a GPU that is full to %g", part)
		}
	}
	for _, d := range [...]time.Duration{j.Limit, j.Counted, j.Checkpoint.Dump, j.Checkpoint.Restore, j.PauseInPlace} {
		if d < 0 {
			return fmt.Errorf("a span of %v", d)
		}
	}
	return nil
}

// checkShares checks the job's shares, and adds their GPUs to the held GPUs of each node.
func (s *Snapshot) checkShares(j *Job, held []GPUSet) error {
	if err := s.checkPlaces(j.Required); err != nil {
		return err
	}
	if err := s.checkPlaces(j.Excluded); err != nil {
		return err
	}
	for i := range j.Shares {
		share := &j.Shares[i]
		if share.Node < 0 || int(share.Node) >= len(s.Nodes) {
			return fmt.Errorf("node %d of %d", share.Node, len(s.Nodes))
		}
		if i > 0 && j.Shares[i-1].Node >= share.Node {
			return fmt.Errorf("the share of node %d comes after that of %d", share.Node, j.Shares[i-1].Node)
		}
		n := &s.Nodes[share.Node]
		if share.GPUs&^n.All() != 0 {
			return fmt.Errorf("holds GPUs %b of node %s, which has %d", share.GPUs, n.Name, len(n.GPUs))
		}
		if both := share.GPUs & held[share.Node]; both != 0 {
			return fmt.Errorf("holds GPUs %b of node %s, which another job holds", both, n.Name)
		}
		held[share.Node] |= share.GPUs
		if share.Capsules < 0 || share.CPUs < 0 || share.Memory < 0 {
			return fmt.Errorf("%d capsules, %d CPUs and %d MiB of node %s", share.Capsules, share.CPUs, share.Memory, n.Name)
		}
	}
	return nil
}

func (s *Snapshot) checkPlaces(places []int32) error {
	for i, p := range places {
		if p < 0 || int(p) >= len(s.Nodes) || i > 0 && places[i-1] >= p {
			return fmt.Errorf("node %d of %d, or out of order", p, len(s.Nodes))
		}
	}
	return nil
}

func isFinite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }
