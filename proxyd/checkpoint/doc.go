// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package checkpoint is the conductor of a node. It admits the tasks of jobs to their
// capsules, leads the checkpoints of jobs that have their batch script on this node, takes part in
// the checkpoints of other jobs, and restores jobs.
//
// Read in this order:
//
//	phases.go         a checkpoint from top to bottom
//	attempt.go        one attempt at a checkpoint; request_checkpoint.go: the requests for one
//	runs              a package: the states of a run, and of a SIGTERM of Slurm
//	calls             a package: the calls between nodes, their arguments, replies and messages
//	calls.go          makes the calls, and lists the handler of each
//	messages          a package: translates values of other packages into these messages
//	restore_steps.go  a restore from top to bottom; restore.go is one program, and the part of one node
//	decisions         a package: the meaning of a SIGTERM, the outcome of a checkpoint, the next run
//	ends              a package: requeues jobs after a run, removes the files of ended jobs
//	records           a package: the files about a job: its record, manifests, time line
//	gpus              a package: the GPUs that the capsules of a job have in a run
//	steps             a package: the sruns of a capsule, and the layout of their steps
//	processes         a package: reads processes: obstacles, executables, cgroups
//	obstacles         a package: searches a running job for parts that cannot be captured
//	queues            a package: the POSIX message queues of a capsule
//	filestate         a package: the state of a capsule's files as a stream of a checkpoint
//	outside           a package: the connections of a capsule to outside of the job, kept by the site's relay
//	upload            a package: copies staged checkpoints into the store, and takes over streams of the
//	                  previous checkpoint
//	reports           a package: writes a job's comment, log lines and metrics, for people
//
// docs/glossary.md explains the words.
//
// # Folders and files
//
//	SHARED/jobs/JOB.json      the Record: nodes of the first run, addresses, options
//	SHARED/jobs/JOB.script    the batch script
//	SHARED/jobs/JOB.K.files   the changes of capsule K to files (package files)
//	SHARED/kits/HASH          our files that programs of jobs use (package records)
//	SHARED/jobs/JOB.N.events  the job's time line, as node N saw it
//	SHARED/jobs/JOB.upload    the record of its upload: the newest checkpoint, until it is in the store
//	SHARED/jobs/JOB.pledge    an upload that does not count yet
//	SHARED/store              checkpoints; Meta is the conductor's part of a manifest
//	staging.folder            of this node: shares of checkpoints on their way (package stage)
//	LIB/capsules/JOB.K        a capsule's folder (package capsule)
//	LIB/notes/JOB.K.json      a capsule's state for the successor of this daemon
//	LIB/lists/JOB.K           the list of changed files that the shims of programs write
//	LIB/sruns/JOB.K/KEY       one srun (package srun)
//	LIB/kits/HASH             this node's copy of a kit
//
// # Names
//
// Capsule K is the K-th node of the job's first run; in this run it may be on another node (records/placement.go). The
// batch script is program "batch" of capsule 0; the node of that capsule leads. A step has the key that its srun was
// given: "s0-3" is the third srun of capsule 0. The programs of its tasks are "s0-3.0", "s0-3.1", ….
//
// # When something dies
//
//	proxyd         capsules run on. The successor adopts them, and finishes or undoes a checkpoint
//	               or restore in progress (restart_daemon.go). The capsule's init withholds a SIGTERM that
//	               comes before the successor does
//	a leader       the other nodes undo their part after leaderTimeout, unless the checkpoint was
//	               committed and the job was released (resolveOrphaned in release.go)
//	a node         Slurm requeues the job, which resumes from its newest checkpoint. If that is
//	               not in the store yet, the restore waits until the node is back with its share;
//	               without the share the checkpoint is lost, and the previous one is the newest
//	a waiting job  an elected daemon of the cluster notices that Slurm has ended the job, and
//	               removes its record (ends/cleaner.go), or that Slurm holds the job because a launch
//	               has failed, and releases the job (ends/failed_launch.go)
//	a restore      the job is held with the reason, and the checkpoint stays. If Slurm, a node or a
//	               network was away, the next runs try again before (retry_restore.go)
//	a device       the state of the devices is lost: the job resumes from its newest checkpoint. If
//	server         the server was killed for lack of memory, the job is held with the reason
//
// # Locks
//
// A lock is taken before the locks below it:
//
//	job.capsulesMu         held while capsules are made or removed
//	restore.mu             held while the leader takes steps of a restore
//	participant.mu         held while this node joins or leaves a checkpoint
//	job.lending            held while the number of leases on this node changes
//	job.placing            held while a lease begins or ends; taken after job.lending
//	restoreTurns.programs  of a capsule; held while CRIU restores a program
//	Job.comment            held while the job's comment in Slurm is read and written (package reports)
//	Run.saving             held while the job's record is written into the shared folder (package runs)
//	└─ job.mu              the other fields of a job; under it, only the writes of notes to this node's disk wait
//	   ├─ Run.mu           the run, and where it stands (package runs)
//	   ├─ Termination.mu   the state of a SIGTERM of Slurm (package runs)
//	   ├─ Outcome.mu       the outcome of an attempt (package decisions)
//	   ├─ Job.mu           the reports that the job's log has not had yet (package reports)
//	   └─ jobTable.mu      the table of jobs
//
// No other lock is taken under these, but Run.mu under localCapsule.forgetting, and Uploads.mu under shareProgress.mu:
//
//	localCapsule.forgetting  held while old changes leave a capsule's list, and while a dump reads the list
//	Withheld.mu              the programs for which a SIGCONT is withheld (package runs)
//	CaptureTimes.mu          the longest time that a capture took (package reports)
//	Timeline.mu              held while a time line is written (package records)
//	Sruns.mu                 the sruns of a capsule (package steps)
//	KeptInputs.mu            the relays of a capsule's wardens in the attempt in progress (package processes)
//	Forwarder.mu             the process of a capsule's forwarder, and its relay (package outside)
//	answers.mu               whether the requests of a capsule's programs are answered (package outside)
//	shareProgress.mu         how much of a share is copied (package upload)
//	Uploads.mu               the uploads that this node leads, and how far its shares are (package upload)
//	uploadRun.mu             the error of an upload's last try (package upload)
//	rateLimit.mu             when this node may send more of a share (package upload)
//	uploadFolder.mu          held while the record of an upload is changed, or a checkpoint is deleted that may be a
//	                         base (package upload)
package checkpoint
