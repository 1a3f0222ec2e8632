// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/preemptd/jobrequest"
	"github.com/singularity-slurm/singularity-slurm/preemptd/room"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// BuildParameters is the caller's knowledge beside Observation.
type BuildParameters struct {
	Number uint64
	Rules  sdk.Rules
	Power  Power
	Tier   func(qos string) sdk.Tier
	// Count returns a job's GPU fraction over the window, and for how long it was counted.
	Count func(id sdk.JobID) (fraction float64, counted time.Duration)
	// Account returns the GPU fraction of all of an account's jobs.
	Account func(name string) float64

	Action map[int64]string       // the action under way on a job
	Held   map[int64]Hold         // the hold that an action left a job with, if the job is held
	Acted  map[int64]time.Time    // when the job was last acted upon
	Edited map[int64]EditedRecord // by actions
	Rooms  map[int64][]string     // nodes that are kept for a job
}

// Hold is a hold that an action left a job with: the user or policy that had asked for the hold. No policy releases a
// person's hold, though Slurm knows only that preemptd made the hold.
type Hold struct {
	Who    string
	Policy bool
}

// EditedRecord is the record of a job that an action has edited.
type EditedRecord struct {
	jobrequest.Record
	ByPerson bool // a person asked for the action, and not a policy
	// SizedByPerson: a person chose its number of nodes and GPUs. Then no policy changes the number; if the job has its
	// size in place, by leases, this holds for as long as the job runs on.
	SizedByPerson bool
}

// WaitsForOurNodes reports whether the job waits for nodes that an action asked for, and not the job's user. Nodes that
// a person asked for count as the user's until the job has run.
func (e EditedRecord) WaitsForOurNodes(j *slurmrest.Job) bool {
	if e.ByPerson && j.Restarts <= e.By.Restarts {
		return false
	}
	required, excluded := e.PinsOf(j.RequiredNodes, j.ExcludedNodes)
	return !jobrequest.SameHosts(required, j.RequiredNodes) || !jobrequest.SameHosts(excluded, j.ExcludedNodes)
}

// Build makes a snapshot. Build changes no argument, and the snapshot shares no changeable memory with the arguments.
func Build(seen Observation, k BuildParameters) *sdk.Snapshot {
	s := &sdk.Snapshot{Cluster: seen.Cluster, Number: k.Number, Time: seen.Time, Rules: k.Rules}
	b := &builder{Snapshot: s, seen: seen, known: k, places: map[string]int32{}}
	b.addNodes()
	b.addJobs()
	b.addReservations()
	b.addPower()
	return s
}

type builder struct {
	*sdk.Snapshot
	seen     Observation
	known    BuildParameters
	places   map[string]int32
	usedGPUs []sdk.GPUSet // by node
}

func (b *builder) addNodes() {
	sorted := inOrder(b.seen.Nodes, func(x, y *slurmrest.Node) int { return cmp.Compare(x.Name, y.Name) })
	for i := range sorted {
		n := &sorted[i]
		if i > 0 && sorted[i-1].Name == n.Name {
			continue
		}
		b.places[n.Name] = int32(len(b.Nodes))
		b.Nodes = append(b.Nodes, sdk.Node{
			Name: n.Name, State: nodeState(n.State), Reason: n.Reason, Since: n.ReasonTime,
			Partitions: n.Partitions, Features: n.ActiveFeatures, CPUs: int(n.CPUs), Memory: n.RealMemory, GPUs: nodeGPUs(n.GRES),
		})
	}
	b.usedGPUs = make([]sdk.GPUSet, len(b.Nodes))
}

// inOrder returns a list in order, and copies the list only if the list is not in order. Rows are
// large, and Slurm's lists are in order as a rule.
func inOrder[T any](all []T, compare func(x, y *T) int) []T {
	for i := 1; i < len(all); i++ {
		if compare(&all[i-1], &all[i]) > 0 {
			all = slices.Clone(all)
			slices.SortStableFunc(all, func(x, y T) int { return compare(&x, &y) })
			return all
		}
	}
	return all
}

// nodeState: base and flags as Slurm has them, in capitals. RESERVED changes nothing: the reservation's text says which
// users have the node.
func nodeState(s slurmrest.NodeState) sdk.NodeState {
	switch s.Base {
	case "DOWN", "ERROR", "FUTURE", "UNKNOWN", "":
		return sdk.NodeDown
	}
	state := sdk.NodeUp
	for _, f := range s.Flags {
		switch f {
		case "NOT_RESPONDING", "INVALID_REG", "POWERED_DOWN", "REBOOT_ISSUED":
			return sdk.NodeDown
		case "DRAIN", "FAIL", "MAINTENANCE", "MAINT", "POWERING_DOWN", "POWER_DOWN", "REBOOT_REQUESTED":
			state = sdk.NodeDraining
		}
	}
	return state
}

// addJobs takes two passes: Slurm may not say which GPUs a job has, and then the job gets GPUs that
// no other job has.
func (b *builder) addJobs() {
	sorted := inOrder(b.seen.Jobs, func(x, y *slurmrest.Job) int { return cmp.Compare(x.ID, y.ID) })
	b.Jobs = make([]sdk.Job, 0, len(sorted))
	leases, isLease := leasesOf(sorted, b.seen.Protected)
	var vague []int
	for i := range sorted {
		j := &sorted[i]
		if j.State.Finished() || isLease[j.ID] || len(b.Jobs) > 0 && b.Jobs[len(b.Jobs)-1].ID == sdk.JobID(j.ID) {
			continue
		}
		made := b.makeJob(j)
		if made.State == sdk.Running || made.State == sdk.Suspended || made.State == sdk.Leaving {
			exact := b.fillShares(j, &made)
			for _, lease := range leases[j.ID] {
				exact = b.addLease(lease, &made) && exact
			}
			b.pinChosenSize(j, &made)
			if !exact {
				vague = append(vague, len(b.Jobs))
			}
		}
		b.Jobs = append(b.Jobs, made)
	}
	for _, i := range vague {
		b.guessGPUs(&b.Jobs[i])
	}
}

func (b *builder) makeJob(j *slurmrest.Job) sdk.Job {
	nodes := max(j.NodeCount.Or(1), 1)
	asked := jobrequest.Request{Nodes: nodes, TRESNode: j.TRESPerNode, TRESJob: j.TRESPerJob}
	required, excluded := j.RequiredNodes, j.ExcludedNodes
	if record, edited := b.known.Edited[j.ID]; edited && record.Asked != record.Ours {
		asked = record.Asked
		required, excluded = record.PinsOf(j.RequiredNodes, j.ExcludedNodes)
	}
	capsules := max(asked.Nodes, 1)
	gpus, kind := gpusRequested(j, nodes, j.TRESPerNode, j.TRESPerJob)
	wanted, _ := gpusRequested(j, capsules, asked.TRESNode, asked.TRESJob)
	made := sdk.Job{
		ID: sdk.JobID(j.ID), Label: j.Label(), Name: j.Name, User: j.User, Account: j.Account, Partition: j.Partition, QOS: j.QOS,
		Priority: j.Priority.Or(0), Gang: sdk.JobID(j.Het.JobID), Reservation: j.Reservation,
		State: b.jobState(j), Action: b.known.Action[j.ID], Restarts: int(j.Restarts), Comment: j.Comment,
		Tier:  b.known.Tier(j.QOS),
		Tasks: int(j.Tasks.Or(0)), Capsules: int(capsules), Kind: kind, Features: requiredFeatures(j.RequestedFeatures),
		Request: wanted, GPUs: gpus,
		Required: b.nodePlaces(required), Excluded: b.nodePlaces(excluded),
		Submitted: j.SubmitTime, Eligible: j.EligibleTime, Acted: b.known.Acted[j.ID],
	}
	cpus := j.CPUs.Or(0)
	made.CPUs = int((cpus + capsules - 1) / capsules)
	made.Memory = j.MemoryPerNode.Or(0) * nodes / capsules
	if perCPU := j.MemoryPerCPU.Or(0); perCPU > 0 {
		made.Memory = perCPU * int64(made.CPUs)
	}
	made.Promised = b.Rules.Promised[made.Tier]
	made.Fraction, made.Counted = b.known.Count(made.ID)
	if made.State == sdk.Held {
		made.HeldBy = b.holderOf(j)
	}
	if !j.TimeLimit.Infinite {
		made.Limit = j.TimeLimit.Duration
	}
	made.Preemptable, made.Obstacle = b.canPreempt(j)
	made.MinGPUs, made.MaxGPUs = b.gpuRange(j, wanted, made.Capsules)
	made.Fullest = b.fullestGPUs(made.Label)
	made.MinGPUs = leastWithoutSwapping(&made, wanted)
	if p := b.seen.Protected[j.ID]; p.Software && p.Restarts == j.Restarts && made.State == sdk.Running {
		made.PauseInPlace = pauseInPlace
	}
	if gpus != wanted && b.isSizeOfPerson(j, nodes, gpus) { // at its full size policies may shrink the job again
		made.Request, made.MinGPUs, made.MaxGPUs = gpus, gpus, gpus
	}
	made.Checkpoint = b.newestCheckpoint(made.Label)
	if _, ours := room.JobOf(made.Reservation); ours {
		made.Reservation = ""
	}
	if len(b.known.Rooms[j.ID]) > 0 {
		made.Reservation = room.NameFor(j.ID)
	}
	return made
}

// isSizeOfPerson reports whether a person has chosen the size of the job: a size that was given in place counts until the
// job has another.
func (b *builder) isSizeOfPerson(j *slurmrest.Job, nodes int64, gpus int) bool {
	edited := b.known.Edited[j.ID]
	inPlace := int(edited.SizedBy.InPlace * nodes)
	return edited.SizedByPerson && (inPlace == 0 || inPlace == gpus)
}

// pauseInPlace is for how long a job stands still, at most, while its devices are put on other software GPUs of the node.
const pauseInPlace = time.Second

// gpusRequested is how many GPUs a job asks for, and of which kind.
func gpusRequested(j *slurmrest.Job, nodes int64, perNode, perJob string) (int, string) {
	if n, kind := gpuRequest(perJob); n > 0 {
		return n, kind
	}
	if n, kind := gpuRequest(perNode); n > 0 {
		return n * int(nodes), kind
	}
	if n, kind := gpuRequest(j.TRESPerTask); n > 0 {
		return n * int(max(j.Tasks.Or(1), 1)), kind
	}
	return gpuTotal(j.TRESRequested), ""
}

func (b *builder) jobState(j *slurmrest.Job) sdk.JobState {
	switch {
	case j.State.Base == "", j.State.Has(slurmrest.Completing):
		return sdk.Leaving
	case j.State.Base == slurmrest.Running:
		return sdk.Running
	case j.State.Base == slurmrest.Suspended:
		return sdk.Suspended
	case j.Held || j.State.Has(slurmrest.RequeueHold) || j.State.Has(slurmrest.SpecialExit):
		return sdk.Held
	case j.EligibleTime.After(b.Time), deferringReasons[j.Reason]:
		return sdk.Deferred
	}
	return sdk.Waiting
}

// deferringReasons are reasons to wait that free nodes would not end.
var deferringReasons = map[string]bool{
	"Dependency": true, "DependencyNeverSatisfied": true, "BeginTime": true, "JobArrayTaskLimit": true,
	"Licenses": true, "PartitionDown": true, "PartitionInactive": true, "BadConstraints": true,
}

func (b *builder) holderOf(j *slurmrest.Job) sdk.Holder {
	hold := b.known.Held[j.ID]
	switch {
	case hold.Policy, requeuingActions[b.known.Action[j.ID]]:
		return sdk.HeldByPreemptd
	case hold.Who != "" && hold.Who == j.User:
		return sdk.HeldByUser
	case hold.Who != "", j.Reason == "JobHeldAdmin":
		return sdk.HeldByOperator
	}
	return sdk.HeldByUser
}

// requeuingActions are the actions that hold a job while they run.
var requeuingActions = map[string]bool{"preempt": true, "migrate": true, "resize": true, "requeue": true}

func (b *builder) canPreempt(j *slurmrest.Job) (bool, string) {
	p, ok := b.seen.Protected[j.ID]
	runs := j.State.Flags == 0 && (j.State.Base == slurmrest.Running || j.State.Base == slurmrest.Suspended)
	switch {
	case !j.Batch:
		return false, "it has no batch script"
	case !j.Requeueable:
		return false, "it was submitted with --no-requeue"
	case !ok && j.State.Base == slurmrest.Pending:
		return false, "it has not run yet: obstacles to a checkpoint are known once it runs"
	case !ok, runs && p.Restarts != j.Restarts:
		return false, "its node's proxyd has not answered yet"
	case !p.Is:
		return false, cmp.Or(p.Obstacle, "it runs without --singularity")
	case p.Restarts != j.Restarts: // the obstacle was of an earlier run
		return true, ""
	}
	return p.Obstacle == "", p.Obstacle
}

// gpuRange is how few and how many GPUs the job runs on, by its user's word: the job began with as many devices as the
// most. Without such a word the job stays with the GPUs that it asked for.
func (b *builder) gpuRange(j *slurmrest.Job, wanted, capsules int) (least, most int) {
	p := b.seen.Protected[j.ID]
	if p.Restarts != j.Restarts { // the node of this run says it again
		p.GPUs = ""
	}
	first, last, isRange := strings.Cut(p.GPUs, "-")
	least, most = wanted, wanted
	if n, err := strconv.Atoi(first); err == nil && n > 0 {
		least = min(n, wanted)
	}
	if n, err := strconv.Atoi(last); isRange && err == nil {
		most = max(min(n, mostDevices*capsules), wanted)
	}
	return least, most
}

// fullestGPUs is which part of a GPU's memory the ranks of a capsule need on 1, 2, … GPUs, by the newest checkpoint:
// state that they hold alike counts once. It is nil for a job without a checkpoint, and does not count state that
// several capsules hold alike.
func (b *builder) fullestGPUs(label string) []float64 {
	for _, c := range slices.Backward(b.seen.Checkpoints[label]) {
		if c.GetProblem() != "" || c.GetGpuMemory() == 0 {
			continue
		}
		var fullest []float64
		for _, bytes := range c.GetGpuNeeds() {
			fullest = append(fullest, float64(bytes)/float64(c.GetGpuMemory()))
		}
		return fullest
	}
	return nil
}

// leastWithoutSwapping is the smallest size of a job, from its least up to wanted, at which the memory of the ranks
// that share a GPU fits there. A job without a checkpoint is not judged.
func leastWithoutSwapping(j *sdk.Job, wanted int) int {
	return sdk.LeastSize(j.MinGPUs, wanted, j.Capsules, func(gpus int) bool { return !j.Swaps(gpus) })
}

// mostDevices is how many devices the programs of a capsule can have (proxyd/checkpoint/gpus).
const mostDevices = 16

// newestCheckpoint describes the newest checkpoint of a job, and its cost.
func (b *builder) newestCheckpoint(label string) sdk.Checkpoint {
	all := b.seen.Checkpoints[label]
	for _, c := range slices.Backward(all) {
		if c.GetProblem() != "" {
			continue
		}
		made := sdk.Checkpoint{At: c.GetCreated().AsTime(), Bytes: c.GetStored(), Measured: true}
		for _, p := range c.GetPhases() {
			if stoppedPhases[p.GetPhase()] {
				made.Dump += p.GetTook().AsDuration()
			}
		}
		made.Dump = max(made.Dump, 0)
		made.Restore = made.Dump // until a restore is measured
		return made
	}
	return sdk.Checkpoint{}
}

// stoppedPhases are the phases in which the job stands still.
var stoppedPhases = map[string]bool{
	rpc.PhaseFreeze: true, rpc.PhaseDrain: true, rpc.PhaseHalt: true, rpc.PhaseDump: true, rpc.PhaseCommit: true,
}

// nodePlaces returns the places of a host list's nodes, without the nodes that do not exist.
func (b *builder) nodePlaces(names string) []int32 {
	var all []int32
	for _, n := range slurmrest.HostsOrNone(names) {
		if place, ok := b.places[n]; ok {
			all = append(all, place)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// requiredFeatures are the features that each node must have. Only Slurm understands an expression
// with more than that.
func requiredFeatures(expression string) []string {
	if expression == "" || strings.ContainsAny(expression, "|[]()*!") {
		return nil
	}
	return strings.FieldsFunc(expression, func(r rune) bool { return r == '&' || r == ',' })
}
