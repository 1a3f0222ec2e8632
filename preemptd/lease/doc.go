// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package lease is the lease that Slurm shows. The journal's lease is between processes that
// share a database; this one is between databases, for one on each of two hosts by mistake.
// Who has the first takes the second, and then works.
//
//	preemptd:works:HOST:ID   a reservation: the preemptd of this host and journal works
//	preemptd:waits:HOST:ID   a question: this one would like to; does who works live?
//
// The reservations are of one node, for one minute, in ten years. They keep no job from
// anything (unlimited is a year to Slurm), and nobody else's are touched: ours have that form.
// Their names say everything, since REST shows no comments, and Slurm 22.05 has none. No name
// is ever used by two, so that nobody can delete, or edit, another's by mistake; REST would
// edit one that exists where it should refuse it.
//
//	who waits                        who works, every beat
//	look ───── nobody's: make our lease; look again: only ours? it is ours
//	  │                                   else delete it, and again after a moment
//	  └─ another's: ask ───────────► look: our lease is gone: lost
//	       │ look: question gone ◄──── delete the questions, look again: sure since then
//	       │   it lives: ask again
//	       └ still there after patience: make our lease, delete its, look again
//	            question still there: it did not live. Else wait for fresh
//
// Steady state costs one small read for each beat, and writes only while somebody waits.
//
// # Why not two
//
// Two that make their leases at once: each looks after it made its own, so that one of them
// at least sees both. Who works and is taken for dead: it is sure only since the beginning of
// a look that saw its lease and no question, and only for fresh, which is less than patience.
// A question that is still there when the lease is gone was never answered, so that look was
// before it. Nothing of this compares clocks of two hosts. Who is not sure begins nothing
// (Sure) until it is again, and loses nothing by that: without Slurm there is nothing to do.
// A lease that disappears otherwise, by an administrator or with its node, is left alone for
// fresh by those who saw it; a preemptd that starts in these seconds did not, and is the one way
// to have two for so long.
//
// While Slurm is away nobody learns anything and nothing is counted: patience begins anew
// with the first answer.
package lease
