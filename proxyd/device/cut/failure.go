// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cut

import (
	"fmt"
	"slices"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/proxyd/barrier"
)

// RankProcess is a rank of the barrier.
type RankProcess struct {
	Member  int    // which of Find's members
	Process uint64 // the device server's name for the process
	PID     int    // in the device server's PID namespace
}

// String names the process.
func (w RankProcess) String() string {
	return fmt.Sprintf("process %d on device server %d", w.PID, w.Member)
}

// Failure says why there is no cut: the barrier's reason, and the processes of its ranks.
type Failure struct {
	*barrier.Failure
	Who []RankProcess // by Ranks
	// Notes are the obstacles that last kept each of these processes from becoming quiet, or "".
	Notes []string
}

func (f *Failure) Error() string {
	var b strings.Builder
	b.WriteString(f.Failure.Error())
	for i, w := range f.Who {
		fmt.Fprintf(&b, "; rank %d is %s", f.Ranks[i], w)
		if f.Notes[i] != "" {
			fmt.Fprintf(&b, " (%s)", f.Notes[i])
		}
	}
	return b.String()
}

// Unwrap returns the barrier's failure.
func (f *Failure) Unwrap() error { return f.Failure }

// nameRanks names the ranks of a failure of the barrier.
func (k *leaderState) nameRanks(from *barrier.Failure) error {
	of := *from
	of.Ranks = slices.DeleteFunc(slices.Clone(of.Ranks), func(r barrier.Rank) bool { return r < 0 || int(r) >= len(k.who) })
	f := &Failure{Failure: &of}
	for _, r := range of.Ranks {
		f.Who = append(f.Who, k.who[r])
		f.Notes = append(f.Notes, k.notes[r])
	}
	return f
}
