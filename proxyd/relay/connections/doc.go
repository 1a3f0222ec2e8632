// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package connections is the relay's part of connections of jobs to outside, and of clients outside to jobs. The relay
// connects to the other side, keeps that connection while the job is away, and meets the job's forwarders at links
// (package stream).
//
//	forwarder ── link ──► relay ── TCP ──► the other side
//	daemon ── Admit ──► relay
//
// # Which connections are allowed
//
// A link is admitted by a ticket, a random text that the daemon of the job's node has chosen. The daemon tells the
// relay the ticket's hash, the job, its user and its run. The caller of Admit has checked the daemon's credential. A
// ticket of an earlier run than the newest is void, so of two runs of a job only the newer has the connections. The
// relay connects to addresses that its Policy allows, with no more rights than any program of its host has, and it
// carries at most PerUser connections of each user at a time.
//
// # Clients
//
// The relay listens for clients at ports that its settings name, for ports that jobs' daemons name (clients.go).
//
// # What the relay keeps
//
// The relay keeps connections in memory: they end with the process. A connection without a link is kept as long as its
// job: until Forget, or until no daemon has named the job for the time Keep. Of each direction the relay keeps the
// bytes that the other end has not used, up to stream.Window; then the relay reads no more, and the other side waits,
// as for a program that does not read.
package connections
