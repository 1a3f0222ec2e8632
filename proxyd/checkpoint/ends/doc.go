// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package ends acts after the end of a run of a job: the package removes the files of the run and of the job from the
// shared folder, and requeues jobs that are to run on. Package checkpoint ends the run's capsules before.
//
//	ends.go             Ends, and the interfaces that Ends needs of the conductor
//	settle.go           Slurm's last word about an ended run: the job is over, waits, or is requeued
//	interrupted_run.go  people are told of a run that was cut short, or ended with its node
//	time_limit.go       a requeue after the time limit
//	remove.go           the record, files and checkpoints of a job are deleted
//	cleaner.go          the elected daemon that cleans up after jobs without a leader
//	failed_launch.go    a job goes on that Slurm holds after a failed launch
//
// The package has no state except that of the Cleaner: unfinished work is noted in the jobs' records.
package ends
