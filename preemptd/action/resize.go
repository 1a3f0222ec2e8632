// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/preemptd/jobrequest"
)

// resize gives a job more or fewer nodes or GPUs. The number of its tasks does not change.
var resize = kind{
	participle: "resized", arguments: []string{"nodes", "avoid", "node count", "gpus", "swap"},
	check: func(a Args) error {
		if a.NodeCount == 0 && a.GPUs == 0 && len(a.Nodes) == 0 {
			return errors.New("say how many nodes, or how many GPUs on each")
		}
		if a.NodeCount != 0 && len(a.Nodes) > 0 && a.NodeCount != int64(len(a.Nodes)) {
			return errors.New("the number of nodes and the nodes that are named disagree")
		}
		return nil
	},
	target: placeAndSize,
	steps:  func(Args) []step { return resizingSteps },
}

// resizingSteps: a job that can be lent GPUs, or is, has another size without leaving its nodes. Otherwise the job
// moves.
var resizingSteps = slices.Insert(slices.Clone(movingSteps), 2, lend)

// lend asks the nodes of a running job to have other jobs of its user lend it GPUs, or fewer. An obstacle to that
// leads to the longer way, by a checkpoint and a requeue.
var lend = step{name: "lend", words: "having other jobs lend it GPUs, or fewer", look: checkLent, do: lendGPUs, within: otherPatience, optional: true}

// checkLent is done when the job has its size, or cannot have it in place.
func checkLent(_ context.Context, w *actionRun) finding {
	j := &w.job
	switch {
	case w.memo.Lent && w.memo.Leases == noLeases:
		return finding{done, "in place; lent by: no job, for it has " + jobrequest.CountOf(w.args.GPUs, "GPU") + " of its own"}
	case w.memo.Lent:
		return finding{done, "in place; lent by: " + w.memo.Leases}
	case !isRunning(j), w.args.GPUs == 0, w.args.NodeCount > 0 && w.args.NodeCount != j.NodeCount.Or(1):
		return finding{outcome: done}
	}
	here := jobrequest.HostNames(j.Nodes)
	if len(w.args.Nodes) > 0 && !jobrequest.SameHosts(strings.Join(w.args.Nodes, ","), j.Nodes) ||
		slices.ContainsFunc(w.args.Avoid, func(name string) bool { return slices.Contains(here, name) }) {
		return finding{outcome: done}
	}
	return finding{outcome: todo}
}

// noLeases is memo.Leases of a job that no other job lends GPUs to.
const noLeases = "none"

func lendGPUs(ctx context.Context, w *actionRun) error {
	qos := ""
	if w.r.LeaseQOS != nil {
		qos = w.r.LeaseQOS()
	}
	leases, err := w.r.Proxyd.Lend(ctx, &w.job, w.args.GPUs, qos)
	if err != nil {
		return err
	}
	if err := w.noteSizeInPlace(ctx); err != nil {
		return err
	}
	w.memo.Lent, w.memo.Leases = true, noLeases
	if len(leases) > 0 {
		w.memo.Leases = strings.Trim(fmt.Sprint(leases), "[]")
	}
	return nil
}

// noteSizeInPlace notes the user or policy that chose the size which the job has in place.
func (w *actionRun) noteSizeInPlace(ctx context.Context) error {
	raw, err := w.r.Journal.Origin(ctx, w.a.Job)
	if err != nil {
		return err
	}
	now := jobrequest.Of(&w.job)
	record := jobrequest.Record{Asked: now, Ours: now}
	if raw != nil {
		if record, err = jobrequest.Decode(raw); err != nil {
			return err
		}
	}
	record.SizedBy = jobrequest.Sizer{Editor: jobrequest.Editor{Who: w.a.Who, Restarts: w.job.Restarts}, InPlace: w.args.GPUs}
	if raw, err = json.Marshal(record); err != nil {
		return err
	}
	return w.r.Journal.SetOrigin(ctx, w.a.Job, raw)
}
