// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package records reads and writes the files about a job on the shared folder. The conductors of all nodes share them,
// and read them again in later runs, also by a later release. Package checkpoint makes all decisions.
//
//	record.go         SHARED/jobs/JOB.json: the Record, from the job's first start to its end; files replaced durably
//	manifest.go       Meta: the conductor's part of a checkpoint's manifest
//	placement.go      on which node of a run each capsule is; the names of programs
//	timeline.go       SHARED/jobs/JOB.NODE.events: events of a job
//	past.go           SHARED/jobs/past/JOB.json: the time line of a job that is over
//	lost_work.go      how much work a new run has lost, by the time line
//	runtime_files.go  SHARED/kits: our files that programs of jobs use
package records
