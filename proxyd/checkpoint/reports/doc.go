// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package reports tells people what happens to a job. Package checkpoint decides which events are reported.
//
//	job.go            the reports about a job: calls the functions of the other files
//	comment.go        proxyd's part of the comments that Slurm shows with a job
//	log_line.go       a line in the job's log
//	meter.go          the values for the metrics of the node
//	capture_times.go  the longest capture of the node, for singctl doctor
//
// The time line of a job is in package records: nodes read a time line again.
package reports
