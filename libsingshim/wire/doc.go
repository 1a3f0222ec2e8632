// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package wire is the ring between the shim in a process and its job's device server: the
// server's end. wire.h describes the bytes, libsingshim/shim/ring.c is the other end, and a test
// compares the two.
//
// The layer carries messages without knowledge of their meaning: an operation's number, arguments, and bulk data that
// is copied once, to its destination. A message is posted, or is a call and has an answer. The server gets all messages
// of a process in the order in which they were reserved: messages that a thread sent before another thread come first.
//
//	Create ─► File ─► (over a unix socket, to the process) ─► Serve ─► handler, message by message
//	   │                                                        ▲ returns after Close, Finish, Detach,
//	   └── Shut, Open, Grant, Counts: the barrier's ────────────┘ or when the process misbehaves
//
// # The maker of the memory
//
// The server makes the memory, and seals its size before any other process sees it. A process
// that could truncate the memory would kill the server, and with the server the whole job's
// devices, by a SIGBUS. A ring that a restored process brings back (Adopt) is checked for the same seals, and must be a
// memfd of ordinary pages.
//
// # Trust
//
// Everything in the ring is written by a process that may do so at any moment, so the server reads each word once,
// atomically, into its own memory, checks it, and then uses it. The position of a message follows from the messages
// before, so that a loop, an overlap or a message that comes twice cannot be told to the server. A process that writes
// nonsense is dropped with a reason (HostileError), and harms only itself: the messages that it can falsify, and the
// bytes that it can read, are those of its own ring.
//
// # Death
//
// There is no moment in which a message is reserved and not published (see wire.h). A thread that
// ends in the middle of a message leaves its lane behind; the server settles the lane. A process
// that is killed leaves the ring as it is: the holder of the socket notices, and calls Close (to drop posted messages)
// or Finish (to handle them first).
package wire
