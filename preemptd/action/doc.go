// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package action carries out the changes to a job that a user or a policy wants: preempt it, resume it, move it, give
// it another size. Each action is a list of steps, in a file of its own; steps.go has the steps. An action's needs of
// Slurm and of the nodes' proxyds are the interfaces in runner.go.
//
//	check ─ announce ─ checkpoint ─ park ─ leave ─ draft ─ edit ─ release ─ start ─ report
//	                       │          └───────┴───────┴───────┴──────┴─────────┘
//	                       │ cannot be made               │ cannot be finished
//	                       ▼                              ▼
//	                   unreport: it runs on     unedit ─ unpark ─ unreport: it goes on as it was
//
// # No request twice, none lost
//
// The journal has the step before the step is done. A step begins by looking at the job as the job is now, and so
// finds out whether the step is done already, by this action before a crash or by another program; the requests of a
// step can be repeated. A requeue, which cannot be repeated, always holds the job: a job that was requeued and held
// cannot start before the release, so a request that arrives late, after its answer was lost, finds a job that is
// pending and has no effect. A checkpoint has the number of its action in its reason, and is found by that number.
//
// # Other users and programs
//
// A job that was cancelled, released, held or edited by another user or program in the middle of an action is left
// alone (journal.Dropped): only a hold of ours is taken back. The journal says that a hold is ours before the hold is
// made; a hold that the journal does not have as ours stays. A release changes the job's comment in the same request.
// So a release that slurmctld forgets, when killed before a save, is told from a hold of another user: the comment is
// forgotten, too.
package action
