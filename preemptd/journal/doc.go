// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package journal is preemptd's memory: each action and the step that is done next, written before the step is done,
// in a single SQLite database. After any kill, the next preemptd finds here how far its predecessor may have come,
// and no further.
//
//	j, err := journal.Open(ctx, "/var/lib/singularity-slurm/preemptd.db", "mycluster")
//	err = j.Await(ctx)                // until this process has the mandate
//	a, err := j.Begin(ctx, journal.Request{Kind: "preempt", Job: 812, …})
//	a.Step = "requeue"                // about to be done
//	err = j.Save(ctx, &a, "")         // only now it may be done
//
// # The mandate
//
// A single preemptd works. It renews the mandate; a second preemptd waits, and takes the mandate over when the mandate was
// not renewed for mandateLife, which is less than ten seconds after the first died. Each taking has a number, the term.
// Every write checks holder and term in its own transaction, so that a preemptd which was stopped and wakes up after
// another took over cannot write any more (ErrLost), and thereby takes no step any more: no step is done that was not
// written before. Time is that of the machine since it was booted, which cannot be set; a mandate of an earlier boot
// has no holder.
//
// This mandate is between processes that share the database. Package mandate is for processes that do not.
//
// The database has to be on a local disk: SQLite's WAL needs memory that all of its users share.
//
// # Guarantees
//
// A call that returned nil is on the disk (WAL, synchronous=FULL). A call that returned an error made no change,
// unless the process or machine died during the call: then the change is there altogether or not at all. A full disk
// is ErrFull, a folder that cannot be written ErrNotWritable, a damaged file ErrDamaged; these errors harm no data
// that is there. A file that is removed under the process is written again (Keep); another file in its place is
// ErrReplaced, which ends the work.
package journal
