// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package srun runs the real srun for the sing-sruns of capsules: as the same user, with the same limits and in the
// same folder, but in the node's network, where slurmstepds can reach it. It is in no image of a checkpoint.
//
// # The processes
//
//	sing-srun  /usr/bin/srun of the capsule (slurm-spank/srun); waits for the end of a pipe
//	starter    the process that calls NewCaller, Adopt or Find: the node's proxyd. Its death harms no srun
//	runner     receives sing-srun's descriptors (Caller), then watches over srun; Run is its life.
//	           When the runner dies, srun is killed
//	srun       the real srun
//	writer     the user, in the job's cgroup: writes for the runner to srun's standard error and the status
//	           pipe, which came from the user (writer.go)
//
//	starter ─fork─► runner ─fork─► (root, then the user) ─execve─► srun
//	                       ─fork─► writer
//
// # The status pipe
//
// sing-srun has sent the write end of a pipe. Lines, from the runner:
//
//	input none       srun does not read its standard input: sing-srun does not read its own
//	key KEY          srun has been executed; under this key its tasks find their images
//	output all       sing-srun takes in all output that comes, however slow its reader is, and passes on no input
//	output paced     sing-srun takes output only as its reader does, and passes on input; so it begins
//	exit N           how srun ended
//	signal N
//
// and from a process that does not start an srun:
//
//	no REASON        for the user
//
// End of file without "exit" or "signal" makes sing-srun ask again, with its key. There are three
// causes: sing-srun was restored from a checkpoint; proxyd died before the start of srun; the
// runner was killed. On a request with a key, proxyd looks into that srun's folder first (Adopt):
// an srun that has ended is reported (Report), any other is ended, and its folder removed (Remove).
//
// sing-srun closes its socket as soon as it has asked, so no answer comes that way: a process that holds a connection
// out of its capsule cannot be captured, and while proxyd freezes a capsule it would not answer there. For the same
// reason proxyd must drop a request that it has not read when the capsule is frozen, if the capsule is then captured,
// and obey it if the capsule is thawed: a restored sing-srun asks again.
//
// # Output
//
// srun writes to sing-srun's standard output and error where these are files or terminals. A pipe or a socket may
// have a slow reader: there sing-srun gives srun a pipe of its own, and passes on the bytes that arrive there
// (slurm-spank/srun/output.c). Output that such a reader has not taken is captured in sing-srun.
//
// # Terminals
//
// srun runs without --pty: the first task of the step has a terminal within its capsule, which is connected to
// sing-srun's by the capsules' network, past srun (slurm-spank/terminal.h). srun reads no input then.
//
// # Input
//
// Where sing-srun's standard input is a pipe, a socket or a file, srun gets a pipe, and sing-srun writes the input
// there (slurm-spank/srun/input.c). sing-srun has both ends, so input that srun has not read is captured in sing-srun.
// Input that srun has read goes on into the pipes of the tasks. At a checkpoint the tasks' wardens take all of it
// (slurm-spank/warden/input.c).
//
// # An srun's folder
//
//	srun.json    the PIDs of runner and srun; written before srun can be executed
//	control      the socket; control.go draws its messages
//	ended        the wait status; written before sing-srun is told
//	launch_failed  srun has reported that Slurm did not start all of its tasks; written before proxyd is asked whether
//	             the user may be told of srun's end
//	runner.log   the runner's complaints
//
// # At a checkpoint
//
//  1. The tasks are frozen, TakeAllOutput is called, and the tasks' pipes to slurmstepd are empty:
//     StepdIdle on each of their nodes.
//  2. Idle: the output of the tasks has come out of srun, and is in files, or in sing-srun. sing-srun may
//     be frozen only now. Before the job runs on: PaceOutput. Once sing-srun is frozen, no input comes any
//     more: Idle again, then StepdIdle and WardenIdle, until the input that srun had read is in the pipes of the tasks.
//  3. When the checkpoint is committed: Quiet, and the wardens of the tasks leave. srun
//     ends by itself, Wait tells when; srun's end is not reported to sing-srun.
//
// # In a later run of the job
//
// Rewrite changes the call for this run: SLURM_* variables, names of nodes, and, for a step with
// tasks that are to be restored, the layout. The process that becomes srun calls Rewrite after it has become the user,
// because Rewrite reads files that the user names.
//
// # Limits
//
//   - A line that a task has begun and not ended waits in its slurmstepd. The line comes out when the
//     task's warden leaves; Idle does not see that line. --unbuffered is left out (terminal.go).
//     For a pipe or a socket that is too late after a release: sing-srun is gone, and the beginning of the
//     line is lost.
//   - The input that srun itself reads from a file (--input=NAME) does not stop before the file's end while the tasks'
//     wardens take input. Idle does not return while srun reads on. A file with much unread input prevents the
//     checkpoint (package processes).
//   - A step of several components (":") is translated but cannot be laid out.
//   - With Mounts, srun does not see file systems that the user mounts in the capsule after the start of srun.
package srun
