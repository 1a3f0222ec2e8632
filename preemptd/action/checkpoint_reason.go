// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"fmt"
	"strings"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// checkpointReason returns the text that proxyd keeps as the reason of a checkpoint: which action asks for it, and
// why. The mark at its end identifies the action's checkpoint.
func (w *actionRun) checkpointReason() string {
	mark := w.checkpointMark()
	return ClipText(w.a.Kind+" by "+w.requesterAndReason(), rpc.MaxReason-len(mark)) + mark
}

// checkpointMark has the number by which people know the action, as in comments.
func (w *actionRun) checkpointMark() string { return fmt.Sprintf(" (action %d)", w.a.ID) }

// clockSkew is by how much the clocks of a node and of this host may differ.
const clockSkew = 5 * time.Second

// isOwnCheckpoint tells whether this action asked for a checkpoint. A checkpoint with its number that is older than
// the action is from a journal that is gone. A preemptd of an earlier release wrote the action's token instead of its
// number.
func (w *actionRun) isOwnCheckpoint(c *rpc.Checkpoint) bool {
	reason := c.GetReason()
	if strings.HasSuffix(reason, " (action "+w.a.Token+")") || strings.HasPrefix(reason, "action "+w.a.Token+": ") {
		return true
	}
	return strings.HasSuffix(reason, w.checkpointMark()) && c.GetCreated().AsTime().After(w.a.Created.Add(-clockSkew))
}
