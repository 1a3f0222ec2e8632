// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/singularity-slurm/singularity-slurm/preemptd/singctl/summary"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// TestSummaryOfOwnRequeue: the work of a run that ended by itself is not said to be done again, and is useful.
func TestSummaryOfOwnRequeue(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	began := func(after time.Duration, afterEnd bool) *rpc.Event {
		return &rpc.Event{Time: timestamppb.New(at.Add(after)), Event: "started", AfterEnd: afterEnd}
	}
	ended := func(after time.Duration) *rpc.Event {
		return &rpc.Event{Time: timestamppb.New(at.Add(after)), Event: "ended"}
	}
	s := &jobSummary{
		name: "7", runs: []summary.Run{{Began: at, Ended: at.Add(20 * time.Second), Elapsed: 20 * time.Second, Nodes: "n1"}},
		totals: summary.Totals{Runs: 1, Ran: 20 * time.Second},
	}
	s.addEvents([]*rpc.Event{began(0, false), ended(8 * time.Second), began(8*time.Second, true), ended(20 * time.Second)})
	var out bytes.Buffer
	(summaryCommand{&app{stdout: &out}}).printSummary(s)
	for _, want := range []string{"work: 20s in all; 8s in runs that ended by themselves\n", "useful: 100 % of the time that it ran\n"} {
		if !bytes.Contains(out.Bytes(), []byte(want)) {
			t.Errorf("the summary has no %q:\n%s", want, out.String())
		}
	}
}
