// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package room keeps the room that is made for a waiting job for that job. While jobs leave nodes
// for its sake, and until it has started, these nodes have a reservation of Slurm's, and the job
// is the only job in the reservation:
//
//	action for job 812 begins ─► reservation preemptd:room:812 on its nodes ─► job 812 is put into it
//	job 812 has started, or is gone, or the room is given up ─► job 812 is taken out ─► the reservation is deleted
//
// Without that Slurm gives the nodes to the first job of its queue, or to a job that is short
// enough to be over before the last of the jobs that make room would have ended by itself.
//
// The journal does not have the rooms. The changes follow from the actions under way and from the reservations that
// Slurm shows, so a preemptd that was killed at any moment is followed by a preemptd that finds the reservations by
// their names. If no preemptd follows, Slurm ends a reservation after a quarter of an hour. The flag FLEX lets the
// job run on after that, on any nodes, and NO_HOLD_JOBS_AFTER_END keeps Slurm from holding a job that still waits
// then. With OVERLAP several jobs can have room on a node at a time. Before Slurm 26.05 such a job could start in
// reservations of other users, so there the second job waits until the first has started.
package room
