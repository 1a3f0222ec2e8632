// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package srun runs the real srun for the sing-sruns of capsules: as the same user,
// with the same limits and in the same folder, but in the node's network, where
// slurmstepds can reach it, and in no image of a checkpoint.
//
// # Who is who
//
//	sing-srun  what the capsule has as /usr/bin/srun (slurm-spank/srun); it waits for the end of a pipe
//	starter    the process that calls NewCaller, Adopt or Find: the node's proxyd. kill -9 does an srun nothing
//	runner     receives what sing-srun has sent (Caller), then watches over one srun; Run is its life.
//	           When it dies, srun is killed
//	srun       the real one
//
//	starter ─fork─► runner ─fork─► (root, then the user) ─execve─► srun
//
// # The status pipe
//
// sing-srun has sent its write end. Lines, from the runner:
//
//	key KEY          srun has been executed; under this key its tasks find their images
//	exit N           how it ended
//	signal N
//
// and from whoever does not start one:
//
//	no REASON        for the user
//
// End of file without "exit" or "signal" makes sing-srun ask again, with its key. It
// has three causes: it was restored from a checkpoint; proxyd died before it had started srun;
// the runner was killed. Who is asked with a key looks into that srun's folder first (Adopt):
// one that has ended is reported (Report), what is left of another is removed (Remove).
//
// sing-srun hears nothing on its socket, which it closes as soon as it has asked. A
// process that holds a connection out of its capsule cannot be captured, and while
// proxyd freezes a capsule it would not answer there. For the same reason a request that
// was not read when its capsule was frozen must be dropped when the capsule is captured,
// and obeyed when it goes on: a restored sing-srun asks again.
//
// # An srun's folder
//
//	srun.json    who runner and srun are; written before srun can be executed
//	control      the socket; control.go draws what is said
//	ended        the wait status; written before it is said
//	runner.log   what the runner had to complain about
//
// # At a checkpoint
//
//  1. The tasks are frozen and their pipes to slurmstepd are empty: StepdIdle on each of their nodes.
//  2. Idle: what they had written has come out of srun. Who reads srun's output may be
//     frozen only now.
//  3. When the checkpoint is committed: Quiet, and the wardens of the tasks leave. srun
//     ends by itself, Wait tells when; what sing-srun would have been told is withheld.
//
// # In a later run of the job
//
// Rewrite makes the call one of this run: SLURM_* variables, names of nodes, and,
// for a step whose tasks are to be restored, the layout. It is done by the process that
// becomes srun when it is the user already, for it reads files that he names.
//
// # Limits
//
//   - A line that a task has begun and not ended waits in its slurmstepd, unless the step
//     is --unbuffered. It comes out when the task's warden leaves; Idle does not see it.
//   - What srun has read from its standard input and a task has not is lost at a restore.
//     Idle does not return while it does not fit into the task's pipe; what is in that
//     pipe is for those who capture the task.
//   - A step of several components (":") is translated but cannot be laid out.
//   - With Mounts, what the user mounts in the capsule after the start of srun is not seen by it.
package srun
