// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package store keeps checkpoints as content-addressed chunks on a folder that many nodes share. Any writer may be
// killed at any instruction; a checkpoint exists if and only if its manifest is in its place.
//
// # Layout
//
//	format                            "singularity-slurm store 1\n"
//	chunks/<2 hex>/<64 hex>           a chunk, named by the BLAKE3-256 of its plain bytes
//	manifests/<cluster>/<job>/<n>     a checkpoint, sealed with the cluster's key
//	deleted/<name>                    a manifest that Delete has removed; readers may still need it
//	leases/<gen>-<kind>-<id>/         an upload, a restore or a reservation in progress
//	generations/<gen>/                the highest is the current generation
//	gc/                               held by the collector
//	sweep/<id>/                       where a collector puts the entries of chunks/ and deleted/
//	trash/<gen>-<id>/                 objects out of sight of writers since the end of that generation
//	tmp/                              files that are not visible yet
//
// docs/formats.md describes the bytes.
//
// # One name per chunk
//
// The names in chunks/ are the only index: all nodes share it, the index is exact at every
// moment, and no second copy could disagree. Ranks that dump the same pages on
// several nodes store them once without knowing of each other, and a collection is a rename and an
// unlink.
//
// The bytes of a chunk, however, need not be a file of their own. With a file per chunk of 64 KiB
// a Writer reached a tenth of the speed of cp on ext4, with most time spent on inodes and flushes, and each file would
// cost NFS five round trips. So a Writer puts chunks in batches (chunk_batch.go), and package posix
// writes each batch as a single file, a pack, to which the chunks' names are hard links. The file
// system counts the references. A pack of which less than half is still used is copied together by
// the next collection. Packs with an index of their own were rejected: the index would have to be merged
// between nodes, or ranks that dump at the same moment would not see each other's chunks; and
// collecting would need a rewrite under a lock.
//
// # Collection
//
// A collector never deletes an unused object at once: the collector first takes the object out of
// sight, and deletes when every process that may have seen it has finished. No clock of any node is
// compared with another's.
//
//	writer                                   collector (the only; holds gc/)
//	──────                                   ─────────
//	g := current generation                  move deleted manifests to trash/g; g+1 begins
//	make leases/g-upload-…                   live := claims
//	refresh a chunk folder, look for chunk   purge trashed manifests older than all of live
//	   there: use it; else put it            used := chunks of every manifest still anywhere
//	put leases/g-upload-…/manifest           purge or restore trashed chunks older than all of live
//	move it to manifests/…   ◄── commit      move unused chunks to trash/g+1; g+2 begins
//	remove the claim                         look at new manifests and claims; purge or restore again
//
// A trash of generation g is settled when every live claim is of a later generation. A claim of a later generation was
// made after the move: its owner cannot have seen the chunk in chunks/, so the owner has put the chunk again. An owner
// of an earlier claim that did see the chunk has either committed, and then its manifest is read before the decision
// and the chunk goes back, or will never commit. Readers find a chunk in trash/ as well, so a committed checkpoint is
// whole at every moment. trash_decision.go holds the decisions, and its test walks every interleaving.
//
// # The dead
//
// A claim's owner writes a count into the claim every few seconds. A process that sees no change of the count for
// Options.Lapse, on its own clock, may take the owner for dead. This can be wrong (a suspended machine, a partition),
// so the owner is also fenced: the claim's folder is emptied and removed, and a commit is a move out of that very
// folder. The commit is therefore either before the fence, and its manifest is seen, or fails with ErrFenced. A
// collector is fenced likewise through its folder in sweep/.
//
// # Locks
//
// The order in which locks are taken, outer first; no lock is held across a call of the
// backend except Stream.mu:
//
//	Stream.mu
//	└─ Writer.mu
//	   └─ Stats, failure, claim (each for a few instructions)
package store
