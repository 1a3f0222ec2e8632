// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package elastic

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// decideOn takes lent GPUs back if a job waits, and else lends idle GPUs, but never does both: GPUs that are lent now
// must not be asked back with the next snapshot.
func decideOn(s *sdk.Snapshot, set Settings) []sdk.Intent {
	room := sdk.NewRoom(s)
	waiting := s.Placing()
	for _, j := range waitingJobs(s) {
		if shares := room.Find(j, j.GPUs, nil); shares != nil {
			room.Take(shares) // Slurm starts the job
			continue
		}
		waiting = true
		if intents := shrinkGrownJobs(s, room, set, j); intents != nil {
			return intents
		}
	}
	if waiting {
		return nil
	}
	return lendGPUs(s, room, set)
}

// maxLookedAt is how many jobs of the queue are looked at.
const maxLookedAt = 100

// waitingJobs is the first of the jobs that wait for room.
func waitingJobs(s *sdk.Snapshot) []*sdk.Job {
	var jobs []*sdk.Job
	for i := range s.Jobs {
		if j := &s.Jobs[i]; j.State == sdk.Waiting && j.Action == "" {
			jobs = append(jobs, j)
		}
	}
	slices.SortStableFunc(jobs, func(a, b *sdk.Job) int {
		return cmp.Or(cmp.Compare(b.Tier, a.Tier), cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.ID, b.ID))
	})
	return jobs[:min(len(jobs), maxLookedAt)]
}

// canResize reports whether a job may be resized now, on its nodes.
func canResize(s *sdk.Snapshot, j *sdk.Job) bool {
	return s.MayDisturb(j) && j.Gang == 0 && j.GPUs > 0 && j.MaxGPUs > j.Request
}

// compareFlags orders false before true.
func compareFlags(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// estimateLoss is the work that a job loses for each GPU that is taken back, in seconds of a GPU: by standing still,
// and by doing less, which is counted for payback. A job with more ranks on some GPUs than on the rest does less than
// its GPUs could.
func estimateLoss(j *sdk.Job, set Settings) float64 {
	lost := j.ResizePause(j.Request).Seconds()*float64(j.GPUs) + time.Duration(set.Payback).Seconds()*j.WorkLost(j.Request)
	return lost / float64(j.GPUs-j.Request)
}

// shrinkGrownJobs shrinks jobs that have more GPUs than they asked for, until the waiting job has room; it returns
// nil if that is not enough. Jobs of the lowest tier are first, and of a tier the jobs that lose least work for each
// GPU that they give. The size that a user asked for is given back in any case, but last of all by jobs that will
// swap their ranks there.
func shrinkGrownJobs(s *sdk.Snapshot, room *sdk.Room, set Settings, waits *sdk.Job) []sdk.Intent {
	var lent []*sdk.Job
	for i := range s.Jobs {
		if j := &s.Jobs[i]; canResize(s, j) && j.GPUs > j.Request && j.MinGPUs <= j.Request && j.Budget(s.Rules) >= j.ResizePause(j.Request) {
			lent = append(lent, j)
		}
	}
	slices.SortStableFunc(lent, func(a, b *sdk.Job) int {
		return cmp.Or(
			compareFlags(a.Swaps(a.Request), b.Swaps(b.Request)),
			cmp.Compare(a.Tier, b.Tier),
			cmp.Compare(estimateLoss(a, set), estimateLoss(b, set)),
			cmp.Compare(b.Sharing().Alike(b.Request), a.Sharing().Alike(a.Request)),
			cmp.Compare(a.ID, b.ID),
		)
	})
	var intents []sdk.Intent
	var took [][2][]sdk.Share
	for _, j := range lent[:min(len(lent), set.Most)] {
		was := j.Shares
		intent, shares, ok := resizeJob(s, room, j, j.Request, fmt.Sprintf("job %s waits for %s: back to the %d that it asked for", waits.Label, sdk.CountOf(waits.GPUs, "GPU"), j.Request))
		if !ok {
			continue
		}
		intent.For = waits.ID
		intents, took = append(intents, intent), append(took, [2][]sdk.Share{was, shares})
		if room.Find(waits, waits.GPUs, nil) != nil {
			return intents
		}
	}
	for _, t := range took {
		room.Give(t[1])
		room.Take(t[0])
	}
	return nil
}

// lendGPUs lets jobs grow into idle GPUs: the highest tier first, and of a tier the job that has the smallest part of
// the GPUs that it asked for.
func lendGPUs(s *sdk.Snapshot, room *sdk.Room, set Settings) []sdk.Intent {
	var jobs []*sdk.Job
	for i := range s.Jobs {
		if j := &s.Jobs[i]; canResize(s, j) && j.GPUs >= j.Request && j.GPUs < j.MaxGPUs {
			jobs = append(jobs, j)
		}
	}
	slices.SortStableFunc(jobs, func(a, b *sdk.Job) int {
		return cmp.Or(cmp.Compare(b.Tier, a.Tier), cmp.Compare(a.GPUs*b.Request, b.GPUs*a.Request), cmp.Compare(a.ID, b.ID))
	})
	var intents []sdk.Intent
	for _, j := range jobs {
		if len(intents) == set.Most {
			break
		}
		if intent, ok := largestSize(s, room, set, j); ok {
			intents = append(intents, intent)
		}
	}
	return intents
}

// largestSize is the largest size for which there is room on the job's nodes, if that size pays.
func largestSize(s *sdk.Snapshot, room *sdk.Room, set Settings, j *sdk.Job) (sdk.Intent, bool) {
	nodes := len(j.Shares)
	for gpus := j.MaxGPUs - j.MaxGPUs%nodes; gpus > j.GPUs; gpus -= nodes {
		if j.ResizePause(gpus).Seconds()*float64(j.GPUs) > time.Duration(set.Payback).Seconds()*float64(gpus-j.GPUs) {
			break // fewer GPUs would take even longer to pay
		}
		if intent, _, ok := resizeJob(s, room, j, gpus, fmt.Sprintf("idle GPUs: from %d to %d until somebody needs them", j.GPUs, gpus)); ok {
			return intent, true
		}
	}
	return sdk.Intent{}, false
}

// resizeJob gives a job another size on its nodes, and takes that out of the room.
func resizeJob(s *sdk.Snapshot, room *sdk.Room, j *sdk.Job, gpus int, reason string) (sdk.Intent, []sdk.Share, bool) {
	nodes := len(j.Shares)
	if nodes == 0 || gpus%nodes != 0 {
		return sdk.Intent{}, nil, false
	}
	where := make([]sdk.Spot, nodes)
	for i, share := range j.Shares {
		where[i] = sdk.Spot{Node: s.Nodes[share.Node].Name, Capsules: int(share.Capsules), GPUs: gpus / nodes}
	}
	room.Give(j.Shares)
	shares, err := room.Seat(j, where)
	if err != nil {
		room.Take(j.Shares)
		return sdk.Intent{}, nil, false
	}
	room.Take(shares)
	return sdk.Intent{Verb: sdk.Resize, Job: j.ID, GPUs: gpus, Where: where, Reason: reason}, shares, true
}
