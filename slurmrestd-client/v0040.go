// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmrest

import "time"

// v0040 is the first version without the hand-written code of the older versions. Like v0.0.38, it
// reports a job's resources flat; it reads instants in a query with sbatch's parser, and answers a
// signal to a job that does not exist with success.
type v0040 struct{ modernVersion }

func (v0040) formatSince(t time.Time) string { return utsSeconds(t) }

func (d v0040) listAbilities() abilities {
	can := d.modernVersion.listAbilities()
	can.signalSaid = false
	return can
}
