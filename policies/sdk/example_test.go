// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package sdk_test

import (
	"context"
	"fmt"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// nightly parks jobs called "test" while a job of a higher tier waits.
type nightly struct{}

func (nightly) Describe() sdk.Description {
	return sdk.Description{Name: "nightly", Version: "1", Summary: "parks tests while others wait"}
}

func (nightly) Configure(settings []byte) error { return sdk.Settings(settings, &struct{}{}) }

func (nightly) Decide(_ context.Context, s *sdk.Snapshot) ([]sdk.Intent, error) {
	var intents []sdk.Intent
	for i := range s.Jobs {
		waiting := &s.Jobs[i]
		if waiting.State != sdk.Waiting || waiting.Tier == sdk.Basic {
			continue
		}
		for k := range s.Jobs {
			if j := &s.Jobs[k]; j.Name == "test" && j.State == sdk.Running && j.Preemptable && j.Action == "" {
				intents = append(intents, sdk.Intent{
					Verb: sdk.Preempt, Job: j.ID, For: waiting.ID, Park: true, Reason: "job " + waiting.Label + " waits: tests run at night",
				})
			}
		}
		break
	}
	return intents, nil
}

// A policy is a type with three methods. Its main is `sdk.Serve(nightly{})`; a test calls Decide with a snapshot.
func Example() {
	snapshot := &sdk.Snapshot{
		Time:  time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		Nodes: []sdk.Node{{Name: "n1", CPUs: 8, Memory: 16000, GPUs: make([]sdk.GPU, 4)}},
		Jobs: []sdk.Job{
			{ID: 7, Label: "7", Name: "test", State: sdk.Running, Preemptable: true, GPUs: 4},
			{ID: 8, Label: "8", Name: "train", State: sdk.Waiting, Tier: sdk.Premium, GPUs: 4},
		},
	}
	intents, err := nightly{}.Decide(context.Background(), snapshot)
	for _, intent := range intents {
		fmt.Println(intent)
		fmt.Println(intent.Reason)
	}
	fmt.Println(err)
	// Output:
	// preempt job 7, parked
	// job 8 waits: tests run at night
	// <nil>
}

// Room finds out where a job would have room, and which jobs would have to leave for that.
func ExampleRoom() {
	snapshot := &sdk.Snapshot{
		Nodes: []sdk.Node{
			{Name: "n1", CPUs: 8, Memory: 16000, GPUs: make([]sdk.GPU, 4)},
			{Name: "n2", CPUs: 8, Memory: 16000, GPUs: make([]sdk.GPU, 4)},
		},
		Jobs: []sdk.Job{
			{
				ID: 7, State: sdk.Running, Capsules: 1, CPUs: 4, Memory: 1000, GPUs: 3, Request: 3,
				Shares: []sdk.Share{{Node: 0, Capsules: 1, GPUs: 0b0111, CPUs: 4, Memory: 1000}},
			},
			{ID: 8, State: sdk.Waiting, Capsules: 2, CPUs: 4, Memory: 1000, GPUs: 8, Request: 8},
		},
	}
	room := sdk.NewRoom(snapshot)
	running, waiting := &snapshot.Jobs[0], &snapshot.Jobs[1]
	fmt.Println("room for job 8:", room.Find(waiting, waiting.GPUs, nil) != nil)
	room.Give(running.Shares) // as if job 7 had left
	fmt.Println("without job 7: ", room.Find(waiting, waiting.GPUs, nil) != nil)
	// Output:
	// room for job 8: false
	// without job 7:  true
}
