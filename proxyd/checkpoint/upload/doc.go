// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package upload brings staged checkpoints into the store. A dump ends in the stages of its nodes, so that the job runs
// on or leaves at once; the upload follows, survives restarts of daemons, and may be waited for by a restore on other
// nodes. Read in this order:
//
//	record.go        the record of an upload, and the protocol as a drawing
//	upload.go        Uploads: functions for a node's conductor, and the interface that it gives to uploads
//	run.go           the leader's side: an upload, repeated until the checkpoint is in the store or lost
//	share.go         every node's side: its share is copied into the store
//	wait.go          the side of a restore: when an upload counts as lost
//	share_writer.go  where a dump writes: into the store, or into the stage
//	streams.go       the streams of a capsule in a share, under a prefix
//	base.go          the older checkpoint of which a dump takes streams over; staged checkpoints refer to that
//
// Locks: uploadFolder.mu is held while the record of an upload is changed, Uploads.mu and uploadRun.mu while fields are
// read or written; no lock is taken under them.
package upload
