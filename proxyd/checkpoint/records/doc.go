// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package records has what the conductors of all nodes write down about a job on the shared folder, and what they read
// again in a later run, also in a later release. It decides nothing: package checkpoint does.
//
//	record.go         SHARED/jobs/JOB.json: the Record, from the job's first start to its end; files replaced durably
//	manifest.go       Meta: the conductor's part of a checkpoint's manifest
//	placement.go      on which node of a run each capsule is; the names of programs
//	timeline.go       SHARED/jobs/JOB.NODE.events: what happened to a job
//	past.go           SHARED/jobs/past/JOB.json: the time line of a job that is over
//	lost_work.go      how much work a new run has lost, by the time line
//	runtime_files.go  SHARED/kits: our files that programs of jobs use
package records
