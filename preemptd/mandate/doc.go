// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package mandate is the mandate that Slurm shows: by it one preemptd works, and no other. The journal's mandate is
// between processes that share a database; the mandate here is between databases: two hosts may have a database each by
// mistake. A preemptd first takes the journal's mandate, then this mandate, and then works.
//
//	preemptd:works:HOST:ID   a reservation: the preemptd of this host and journal works
//	preemptd:waits:HOST:ID   a question: this preemptd would like to work; is the worker alive?
//
// The reservations are of a single node, for a minute, in ten years. They keep no job off a node (unlimited is a year
// to Slurm), and other people's reservations are not touched: only ours have names of that form. The names say
// everything, since REST shows no comments, and Slurm 22.05 has no comments of reservations. No name is ever used by
// two preemptds, so that no preemptd can delete, or edit, another's by mistake; REST would edit an existing
// reservation where REST should refuse to create it.
//
//	waiting preemptd                 working preemptd, every renewInterval
//	look ───── no mandate: make ours; look again: only ours? then we work
//	  │                                else delete ours, and again after a moment
//	  └─ another's: ask ───────────► look: our mandate is gone: lost
//	       │ look: question gone ◄──── delete the questions, look again: sure since then
//	       │   the worker lives: ask again
//	       └ still there after answerTimeout: make our mandate, delete the worker's, look again
//	            question still there: the worker did not live. Else wait for certainFor
//
// Steady state costs a small read for each renewInterval, and writes only while a preemptd waits.
//
// # Why two never work
//
// Two preemptds that make their mandates at once: each looks after it made its own, so that at least one of the two
// sees both mandates. A worker that is taken for dead: the worker is sure only since the beginning of a look that saw
// its mandate and no question, and only for certainFor, which is less than answerTimeout. A question that is still
// there when the mandate is gone was never answered, so that look was before the question. No clocks of two hosts are
// compared. A worker that is not sure begins no step (Sure) until it is sure again, and loses no time by that:
// without Slurm it could take no step. A mandate that disappears for another reason, by an administrator or with its
// node, is left alone for certainFor by the preemptds that saw the mandate; a preemptd that starts in these seconds did
// not see the mandate, and only so can two work for so long.
//
// While Slurm is away no preemptd sees a mandate, and that time does not count: answerTimeout begins anew with the
// first answer.
package mandate
