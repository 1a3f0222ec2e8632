// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmrest

// v0045 is the first version that can requeue a job, and make reservations.
type v0045 struct{ modernVersion }

func (d v0045) listAbilities() abilities {
	can := d.modernVersion.listAbilities()
	can.requeue, can.reserve, can.resApart = true, true, true
	return can
}
