// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// TestShortReason: the reason of a policy, which is a sentence, does not push the other columns away.
func TestShortReason(t *testing.T) {
	for reason, want := range map[string]string{
		"": "-", "requeue": "requeue", "preempt by policy tiers: premium job 4 waits for 4 GPUs": "preempt by policy tiers: premium job 4 …",
	} {
		if got := shortReason(reason); got != want {
			t.Errorf("shortReason(%q) = %q, want %q", reason, got, want)
		}
	}
}

// TestLacksOlder: the list says that older checkpoints are removed where some were.
func TestLacksOlder(t *testing.T) {
	for _, c := range []struct {
		ids  string
		keep uint32
		want bool
	}{
		{"m/8/1 m/8/2", 2, false}, {"m/8/3 m/8/4", 2, true}, {"m/8/1 m/8/2 m/9/2 m/9/3", 2, true},
		{"m/8/3", 2, false}, {"m/8/3", 1, true}, {"m/8/3 m/8/4", 0, false}, {"m/8/x m/8/y", 2, false}, {"", 2, false},
	} {
		reply := &rpc.CheckpointsReply{Keep: c.keep}
		for id := range strings.FieldsSeq(c.ids) {
			reply.Checkpoints = append(reply.Checkpoints, &rpc.Checkpoint{Id: id})
		}
		if got := lacksOlder(reply); got != c.want {
			t.Errorf("lacksOlder of %s, keep %d = %v", c.ids, c.keep, got)
		}
	}
}
