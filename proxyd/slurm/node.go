// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurm

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Idle is the part of a node that Slurm has given to no job.
type Idle struct {
	Node   string
	CPUs   int
	Memory int // MB
	GPUs   int
	// State are Slurm's words for the state of the node: "MIXED", "DRAIN".
	State []string
}

// Idle asks Slurm for the part of a node that no job has.
func (s *Slurm) Idle(ctx context.Context, node string) (*Idle, error) {
	out, err := s.scontrol.Run(ctx, "show", "node", "-d", "-o", node)
	if err == nil {
		var idle *Idle
		if idle, err = parseIdle(string(out), node); err == nil {
			return idle, nil
		}
	}
	return nil, fmt.Errorf("idle resources of node %s: %w", node, err)
}

// parseIdle reads the line of scontrol show node -d -o. Texts of administrators are at its end: the first field of a
// name is Slurm's.
func parseIdle(line, node string) (*Idle, error) {
	fields := map[string]string{}
	for word := range strings.FieldsSeq(line) {
		name, value, is := strings.Cut(word, "=")
		if _, met := fields[name]; is && !met {
			fields[name] = value
		}
	}
	number := func(name string) (n int, err error) {
		if n, err = strconv.Atoi(fields[name]); err != nil {
			err = fmt.Errorf("%s=%q is not understood", name, fields[name])
		}
		return n, err
	}
	cpus, err := number("CPUEfctv") // without the cores of CoreSpecCount
	if err != nil {
		if cpus, err = number("CPUTot"); err != nil {
			return nil, err
		}
	}
	cpusTaken, err := number("CPUAlloc")
	if err != nil {
		return nil, err
	}
	memory, err := number("RealMemory")
	if err != nil {
		return nil, err
	}
	memoryTaken, err := number("AllocMem")
	if err != nil {
		return nil, err
	}
	return &Idle{
		Node: node, CPUs: cpus - cpusTaken, Memory: memory - memoryTaken - numberOr(fields["MemSpecLimit"], 0),
		GPUs: countGPUs(fields["Gres"]) - countGPUs(fields["GresUsed"]), State: strings.Split(fields["State"], "+"),
	}, nil
}

// countGPUs counts the GPUs in "gpu:a100:2(S:0-1),gpu:1(IDX:2),nic:1".
func countGPUs(text string) (n int) {
	for _, item := range splitOutside(text) {
		kind, _, _ := strings.Cut(item, "(")
		if f := strings.Split(kind, ":"); f[0] == "gpu" && len(f) > 1 {
			n += numberOr(f[len(f)-1], 0)
		}
	}
	return n
}

// The resources of a job that SubmitLease submits, beside a GPU.
const (
	leaseCPUs   = 1
	leaseMemory = 64 // MB
)

// WhyNoLeases says why Slurm cannot start so many jobs of SubmitLease on the node now; "" if Slurm can, or if a job
// that ends on the node may give back what they lack.
func (i *Idle) WhyNoLeases(leases int) string {
	for _, state := range i.State {
		if word := strings.TrimRight(state, "*~#!%$@^-"); word == "DRAIN" || word == "DOWN" {
			return fmt.Sprintf("%s is %s: Slurm starts no job there", i.Node, strings.Join(i.State, "+"))
		}
	}
	if slices.Contains(i.State, "COMPLETING") {
		return ""
	}
	var lacks []string
	for _, r := range []struct {
		of, unit   string
		idle, each int
	}{{"CPUs", "", i.CPUs, leaseCPUs}, {"memory", " MB", i.Memory, leaseMemory}, {"GPUs", "", i.GPUs, 1}} {
		if need := r.each * leases; r.idle < need {
			lacks = append(lacks, fmt.Sprintf("idle %s (%d of %d%s)", r.of, max(r.idle, 0), need, r.unit))
		}
	}
	if len(lacks) == 0 {
		return ""
	}
	what := "a lease"
	if leases > 1 {
		what = fmt.Sprintf("%d leases", leases)
	}
	return fmt.Sprintf("for %s, %s lacks %s", what, i.Node, strings.Join(lacks, ", "))
}
