// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package jobrequest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// InitialSize is how a job's programs began. It stays so for the life of the job: programs see the nodes and the GPUs with
// which they began, however many the job has later.
type InitialSize struct {
	GPUs  []int64 // GPUs that the programs of each of its nodes see
	Range string  // --singularity-gpus, "MIN-MAX"; "": not said, or not known
	// Estimated: the nodes were not asked. The programs may see more.
	Estimated bool
}

// SizeError says why a job cannot have a size. The text is for people, and says which sizes the job can have.
type SizeError struct{ Text string }

func (e *SizeError) Error() string { return e.Text }

func refuseSize(format string, args ...any) error { return &SizeError{fmt.Sprintf(format, args...)} }

// UsableGPUs is how many GPUs on each of so many nodes the job's programs can use: neighbours of the nodes on which the
// job began share a node.
func (b InitialSize) UsableGPUs(nodes int64) int64 {
	began := int64(len(b.GPUs))
	on := map[int64]int64{}
	for i, gpus := range b.GPUs {
		node := int64(i)
		if nodes < began {
			node = node * nodes / began
		}
		on[node] += gpus
	}
	var most int64
	for _, n := range on {
		most = max(most, n)
	}
	return most
}

// CheckUse says why the programs of a job, with the present request now, could not use the nodes and GPUs of wanted.
// A part that does not grow is not looked at.
func (b InitialSize) CheckUse(now, wanted Request) error {
	if began := int64(len(b.GPUs)); wanted.Nodes > now.Nodes && wanted.Nodes > began {
		return refuseSize("%s: its programs began on %s and can be on no more: 1 to %d nodes are possible",
			CountOf(wanted.Nodes, "node"), CountOf(began, "node"), began)
	}
	each := wanted.GPUsOnNode()
	usable := b.UsableGPUs(wanted.Nodes)
	if each <= usable || each <= now.GPUsOnNode() && wanted.Nodes <= now.Nodes {
		return nil
	}
	why := "a job that is to grow is submitted with --singularity-gpus=MIN-MAX"
	switch {
	case b.Estimated:
		why = "that is what the job asked for; no node knows whether they see more"
	case b.Range != "":
		why = "it was submitted with --singularity-gpus=" + b.Range
	}
	if usable == 0 {
		return refuseSize("%s on each node: its programs began without GPUs, and can use none", CountOf(each, "GPU"))
	}
	possible := "1 is possible"
	if usable > 1 {
		possible = fmt.Sprintf("1 to %d are possible", usable)
	}
	return refuseSize("%s: its programs see %d there, and can use no more: %s (%s)", onNodes(CountOf(each, "GPU"), wanted.Nodes), usable, possible, why)
}

// GPUsOnNode is how many GPUs a job asks for on each node.
func (r Request) GPUsOnNode() int64 {
	nodes := max(r.Nodes, 1)
	inJob, _ := countGPUs(r.TRESJob)
	onNode, _ := countGPUs(r.TRESNode)
	inTask, _ := countGPUs(r.TRESTask)
	return max(onNode, roundUp(inJob, nodes), roundUp(inTask*r.Tasks, nodes))
}

func roundUp(n, by int64) int64 { return (n + by - 1) / by }

// CountOf is "1 GPU" or "2 GPUs".
func CountOf(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// countGPUs counts the GPUs in "gres/gpu:a100:2,gres/nic:1" and in "gpu:a100:4(S:0-1),gpu:2", and returns their type
// if a single one is named.
func countGPUs(text string) (n int64, kind string) {
	depth := 0
	for item := range strings.FieldsFuncSeq(text, func(r rune) bool {
		switch r {
		case '(':
			depth++
		case ')':
			depth--
		}
		return r == ',' && depth == 0
	}) {
		item, _, _ = strings.Cut(item, "(")
		fields := strings.Split(strings.TrimPrefix(item, "gres/"), ":")
		if fields[0] != "gpu" {
			continue
		}
		if len(fields) > 1 {
			kind = fields[1]
		}
		count, err := strconv.ParseInt(fields[len(fields)-1], 10, 32)
		if err != nil { // "gres/gpu" and "gres/gpu:a100" mean 1
			count = 1
		} else if len(fields) == 2 {
			kind = ""
		}
		n += max(count, 0)
	}
	return n, kind
}

// AllowedNodes are the nodes that a job could have: all of its partition without the excluded nodes, or the required
// nodes.
type AllowedNodes struct {
	Partition string // as Slurm has it: "debug", "debug,long"
	Nodes     []slurmrest.Node
	// Own are GPUs that the job holds, by node: they are free when the job leaves.
	Own map[string]int64
}

// CheckNodes says why no nodes could ever have a job that asks for r, were they all empty.
func (p AllowedNodes) CheckNodes(r Request) error {
	return p.checkGPUs(r, false, nodeGPUs)
}

// CheckIdle says why no nodes have room now for a job that asks for r, once the job has left its own.
func (p AllowedNodes) CheckIdle(r Request) error {
	idle := func(n *slurmrest.Node, kind string) int64 {
		used, usedKind := countGPUs(n.GRESUsed)
		if kind != "" && usedKind != "" && usedKind != kind {
			used = 0
		}
		return max(nodeGPUs(n, kind)-used+p.Own[n.Name], 0)
	}
	return p.checkGPUs(r, true, idle)
}

// nodeGPUs is how many GPUs of a type a node has; of any type with "".
func nodeGPUs(n *slurmrest.Node, kind string) int64 {
	if kind == "" {
		all, _ := countGPUs(n.GRES)
		return all
	}
	var of int64
	for _, item := range strings.Split(n.GRES, ",") {
		if count, is := countGPUs(item); is == kind {
			of += count
		}
	}
	return of
}

// checkGPUs says why there are not so many nodes with as many GPUs as r asks for.
func (p AllowedNodes) checkGPUs(r Request, idle bool, gpusOf func(*slurmrest.Node, string) int64) error {
	each := r.GPUsOnNode()
	_, kind := countGPUs(r.TRESNode + "," + r.TRESJob)
	var enough, most int64
	for _, n := range p.listCandidates(r, idle) {
		gpus := gpusOf(&n, kind)
		most = max(most, gpus)
		if gpus >= each {
			enough++
		}
	}
	if enough >= r.Nodes {
		return nil
	}
	where, state := "partition "+p.Partition, ""
	if r.requiresAll() {
		where = "the nodes named, " + r.Required + ","
	}
	if idle {
		state = " idle, with those that the job has itself"
	}
	if each == 0 {
		return refuseSize("%s: %s has %d that the job may use", CountOf(r.Nodes, "node"), where, enough)
	}
	gpus := CountOf(each, "GPU")
	if kind != "" {
		gpus += " of type " + kind
	}
	have := "no node has"
	if enough > 0 {
		have = "only " + CountOf(enough, "node")
		if have += " has"; enough > 1 {
			have = "only " + CountOf(enough, "node") + " have"
		}
	}
	return refuseSize("%s: in %s %s so many%s; the most on a node is %d", onNodes(gpus, r.Nodes), where, have, state, most)
}

// onNodes is "2 GPUs on a node" or "2 GPUs on each of 3 nodes".
func onNodes(gpus string, nodes int64) string {
	if nodes == 1 {
		return gpus + " on a node"
	}
	return fmt.Sprintf("%s on each of %d nodes", gpus, nodes)
}

// requiresAll reports whether the job names all the nodes on which to run.
func (r Request) requiresAll() bool {
	return r.Required != "" && int64(len(HostNames(r.Required))) >= r.Nodes
}

// listCandidates returns the nodes on which the job may be.
func (p AllowedNodes) listCandidates(r Request, onlyUp bool) []slurmrest.Node {
	partitions := strings.Split(p.Partition, ",")
	var required, excluded []string
	if r.Required != "" {
		required = HostNames(r.Required)
	}
	if r.Excluded != "" {
		excluded = HostNames(r.Excluded)
	}
	var all []slurmrest.Node
	for _, n := range p.Nodes {
		up := n.State.Base != "DOWN" && n.State.Base != "FUTURE" && !n.State.Has("DRAIN") && !n.State.Has("NOT_RESPONDING")
		switch {
		case onlyUp && !up,
			p.Partition != "" && !slices.ContainsFunc(partitions, func(name string) bool { return slices.Contains(n.Partitions, name) }),
			slices.Contains(excluded, n.Name),
			r.requiresAll() && !slices.Contains(required, n.Name):
			continue
		}
		all = append(all, n)
	}
	return all
}
