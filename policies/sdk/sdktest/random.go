// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package sdktest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// Random makes a small snapshot in which everything that the contract allows happens: nodes of
// all states and kinds, sick GPUs, jobs in every state, gangs, reservations and power caps.
func Random(r *rand.Rand) *sdk.Snapshot {
	s := Cluster(Size{Nodes: 1 + r.IntN(6), GPUs: 1 + r.IntN(8), Jobs: r.IntN(30), Fill: r.Float64(), Seed: r.Uint64()})
	for i := range s.Nodes {
		disturbNode(r, &s.Nodes[i])
	}
	for i := range s.Jobs {
		disturbJob(r, s, &s.Jobs[i])
	}
	if r.IntN(3) == 0 {
		s.Reservations = append(s.Reservations, sdk.Reservation{
			Name: "work", Start: Now.Add(time.Duration(r.IntN(7200)-3600) * time.Second), End: Now.Add(2 * time.Hour),
			Maintenance: r.IntN(2) == 0, Nodes: []int32{int32(r.IntN(len(s.Nodes)))}, Users: []string{"user001"}, Accounts: []string{"group01"},
		})
	}
	if r.IntN(3) == 0 {
		s.Power.Caps = []sdk.Cap{{Name: "site", Watts: float64(r.IntN(4000)), End: Now.Add(time.Hour)}}
		if r.IntN(2) == 0 {
			s.Power.Caps[0].Start, s.Power.Caps[0].Nodes = Now.Add(-time.Hour), []int32{0}
		}
	}
	if r.IntN(3) == 0 {
		s.Accounts[r.IntN(len(s.Accounts))].MaxGPUs = 1 + r.IntN(8)
		s.QOS[r.IntN(len(s.QOS))].MaxGPUs = 1 + r.IntN(16)
	}
	return s
}

func disturbNode(r *rand.Rand, n *sdk.Node) {
	switch r.IntN(10) {
	case 0:
		n.State, n.Reason, n.Since = sdk.NodeDraining, "new firmware", Now.Add(-time.Minute)
	case 1:
		n.State = sdk.NodeDown
	case 2:
		n.GPUs[r.IntN(len(n.GPUs))].Health = sdk.HealthBad
	case 3:
		n.GPUs[r.IntN(len(n.GPUs))].Health = sdk.HealthUnknown
	case 4:
		n.Partitions, n.Features = []string{"gpu", "spare"}, nil
	}
}

func disturbJob(r *rand.Rand, s *sdk.Snapshot, j *sdk.Job) {
	if j.Holds() {
		j.State = []sdk.JobState{sdk.Running, sdk.Running, sdk.Running, sdk.Running, sdk.Leaving, sdk.Suspended}[r.IntN(6)]
	} else {
		j.State = []sdk.JobState{sdk.Waiting, sdk.Waiting, sdk.Waiting, sdk.Held, sdk.Deferred}[r.IntN(5)]
		j.Fraction, j.Counted = r.Float64(), time.Duration(r.IntN(3600))*time.Second
	}
	if j.State == sdk.Held {
		j.HeldBy = sdk.HeldByUser + sdk.Holder(r.IntN(3))
	}
	switch r.IntN(12) {
	case 0:
		j.Action, j.Comment, j.Restarts = "preempt", "being preempted", 1
	case 1:
		j.Acted = Now.Add(-time.Duration(r.IntN(600)) * time.Second)
	case 2:
		j.Kind = "h100"
	case 3:
		j.Features = []string{"ib"}
	case 4:
		j.Required = []int32{int32(r.IntN(len(s.Nodes)))}
	case 5:
		j.Excluded = []int32{int32(r.IntN(len(s.Nodes)))}
	case 6:
		if i := r.IntN(len(s.Jobs)); s.Jobs[i].ID < j.ID && s.Jobs[i].Gang == 0 && s.Jobs[i].State == j.State {
			j.Gang, s.Jobs[i].Gang = s.Jobs[i].ID, s.Jobs[i].ID
		}
	case 7:
		j.MaxGPUs *= 2
		if j.State == sdk.Running {
			j.Leased = j.GPUs / 2
		}
	case 8:
		j.Reservation = "work"
	}
}

// verbs is every verb of the contract.
var verbs = []sdk.Verb{sdk.Preempt, sdk.Resume, sdk.Migrate, sdk.Resize, sdk.Hold, sdk.Release, sdk.Requeue, sdk.Place}

// RandomIntents makes intents for a snapshot: some that make sense, many that do not.
func RandomIntents(r *rand.Rand, s *sdk.Snapshot) []sdk.Intent {
	intents := make([]sdk.Intent, r.IntN(20))
	for i := range intents {
		intents[i] = randomIntent(r, s)
	}
	return intents
}

func randomIntent(r *rand.Rand, s *sdk.Snapshot) sdk.Intent {
	i := sdk.Intent{Verb: verbs[r.IntN(len(verbs))], Job: sdk.JobID(r.IntN(3000)), Reason: fmt.Sprintf("dice said %d", r.IntN(6))}
	if len(s.Jobs) == 0 {
		return i
	}
	j := &s.Jobs[r.IntN(len(s.Jobs))]
	i.Job, i.GPUs, i.Tasks = j.ID, j.GPUs, j.Tasks
	switch r.IntN(12) {
	case 0:
		i.Tasks++
	case 1:
		i.Reason = ""
	case 2:
		i.GPUs = r.IntN(20) - 2
	case 3:
		i.For = s.Jobs[r.IntN(len(s.Jobs))].ID
	case 4:
		i.Park = true
	case 5:
		i.Avoid = []string{s.Nodes[r.IntN(len(s.Nodes))].Name}
	case 6:
		i.QOS = []string{"basic", "premium", "nothing"}[r.IntN(3)]
	case 7:
		i.Verb = sdk.Place
	}
	if i.Verb == sdk.Requeue && i.QOS == "" {
		i.QOS = "standard"
	}
	if i.Verb == sdk.Resize && r.IntN(2) == 0 {
		i.GPUs = j.MinGPUs
	}
	if r.IntN(2) == 0 {
		i.Where = randomSpots(r, s, j, i.GPUs)
	}
	return i
}

// randomSpots are mostly where the job could stand if the nodes were free.
func randomSpots(r *rand.Rand, s *sdk.Snapshot, j *sdk.Job, gpus int) []sdk.Spot {
	var spots []sdk.Spot
	start := r.IntN(len(s.Nodes))
	for c := range j.Capsules {
		n := s.Nodes[(start+c)%len(s.Nodes)].Name
		spots = append(spots, sdk.Spot{Node: n, Capsules: 1, GPUs: gpus / j.Capsules})
	}
	switch r.IntN(10) {
	case 0:
		spots = append([]sdk.Spot(nil), spots[1:]...)
	case 1:
		spots[0].Node = "nowhere"
	case 2:
		spots[0].GPUs += r.IntN(5) - 2
	case 3:
		spots = append(spots, spots[0])
	}
	return spots
}
