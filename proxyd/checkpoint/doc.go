// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package checkpoint is the conductor: it gives the tasks of a job their place, leads the
// checkpoints of jobs whose batch script runs on this node, takes part in those of others,
// and brings jobs back.
//
// Read first: phases.go, a checkpoint from top to bottom; upload_record.go, the way of one that
// lands on its nodes first; incremental.go, what one takes over of the one before; restore.go, a
// restore; verdict.go, what a SIGTERM from Slurm means.
//
// # What is where
//
//	SHARED/jobs/JOB.json      the Record: nodes of the first run, addresses, options
//	SHARED/jobs/JOB.script    the batch script
//	SHARED/jobs/JOB.K.files   what capsule K did to files (package files)
//	SHARED/kits/HASH          what programs have of ours (runtime_files.go)
//	SHARED/jobs/JOB.N.events  what happened to it, as node N saw it
//	SHARED/jobs/JOB.upload    the Upload: its newest checkpoint, until that is in the store
//	SHARED/jobs/JOB.pledge    the same of one that is about to be that
//	SHARED/store              checkpoints; Meta is what a manifest says of one
//	staging.folder            of this node: shares of checkpoints on their way (package stage)
//	LIB/capsules/JOB.K        a capsule's folder (package capsule)
//	LIB/notes/JOB.K.json      what must be known of it after this daemon was killed
//	LIB/lists/JOB.K           the list that its programs' shims write
//	LIB/sruns/JOB.K/KEY       one srun (package srun)
//	LIB/kits/HASH             this node's copy of a kit
//
// # Names
//
// Capsule K is the K-th node of the job's first run, wherever it is today (placement.go). The
// batch script is program "batch" of capsule 0, whose node leads. A step has the key that
// its srun was given, "s0-3": the third srun of capsule 0; its tasks are "s0-3.0", ….
//
// # When something dies
//
//	proxyd      capsules run on. Its successor adopts them, and finishes or undoes what was
//	            in progress (restart_daemon.go). A SIGTERM that came meanwhile is held back by the
//	            capsule's init
//	a leader    the others undo their part when it has been silent for a while, unless the
//	            checkpoint was committed and the job has left (resolveOrphaned in release.go)
//	a node      Slurm requeues the job; it goes on from its newest checkpoint. One that was
//	            not in the store yet comes when the node is back and still has its share;
//	            else it is lost, and the one before is the newest
//	a job that  one daemon of the cluster notices that Slurm is done with it (ended_jobs.go)
//	waits
//	a restore   the job is held with the reason, and the checkpoint stays
//	a device    what it held is lost: the job resumes from its newest checkpoint. If it was killed
//	server      because the job has no more memory, the job is held with the reason
//
// # Locks
//
//	job.capsulesMu    who makes or removes capsules
//	└─ job.mu      everything else of a job; never held across a call that waits
//	Conductor.mu   the table of jobs; leaf
package checkpoint
