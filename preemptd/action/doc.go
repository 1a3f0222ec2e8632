// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package action does to a job what somebody wants done: preempt it, let it go on, move
// it, give it another size. Each action is a list of steps, in a file of its own; steps.go
// has the steps. What an action needs of Slurm and of the nodes' proxyds are the
// interfaces in runner.go.
//
//	check ─ announce ─ checkpoint ─ park ─ leave ─ draft ─ edit ─ release ─ start ─ report
//	                       │          └───────┴───────┴───────┴──────┴─────────┘
//	                       │ cannot be made               │ cannot be finished
//	                       ▼                              ▼
//	                   unreport: it runs on     unedit ─ unpark ─ unreport: it goes on as it was
//
// # Nothing twice, nothing lost
//
// The journal has the step before it is done. A step begins by looking at the job as it is
// now, and so finds out whether it is done already, by itself before a crash or by somebody
// else; what it does can be repeated. The one thing that cannot, a requeue, always holds
// the job: one that was requeued and held cannot start before the release, so a request
// whose answer was lost, and which arrives late, finds a job that is pending and does
// nothing. A
// checkpoint carries the action's token in its reason, and is found by it.
//
// # Others
//
// A job that was cancelled, released, held or edited by somebody else in the middle is left
// to them (journal.Dropped): only a hold of ours is taken back.
package action
