// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package munge lets gRPC services know which user calls, by the credentials that every Slurm
// cluster already has. It serves any service with unary requests; replies may stream. Of our other
// packages it knows strangers, which bounds connections.
//
// # The messages
//
//	client                                             server, root, on node n1
//	──────                                             ────────────────────────
//	request := the bytes of the message
//	ticket  := {method, to: "n1", from, nonce,
//	            size and SHA-256 of request, key}
//	credential := munge --restrict-uid=0 ticket
//	metadata: credential ─────────────────────────────► unmunge: uid and gid of the caller; munge says
//	                                                    expired, rewound, replayed, other realm
//	                                                    ticket: this method? this node? nonce new?
//	                                                    size: may the caller send as much?
//	request, in pieces ───────────────────────────────► size and SHA-256 as in the ticket? no more than
//	                                                    that is read; only now is the message parsed
//	◄────────────────────────────────────────── replies
//	◄───────────────────────── status; trailer: seal := HMAC-SHA256(key, replies and status)
//	seal right? else the call has failed
//
// Only root can read a credential, on any node that has the cluster's munge key. So other users
// cannot take a credential from a proxyd's port while proxyd is down and use it, and the key in
// the credential proves that the reply is from root of a node of this cluster, unchanged and
// complete: a status, an error's details and the end of a stream cannot be forged either.
// Messages of a stream are handed out before the seal is seen; their content can be trusted only
// when the stream has ended without an error.
//
// # Limits
//
// Messages are not encrypted, as in Slurm's own traffic without TLS. Root of a node is trusted on
// all nodes, as with Slurm. An attacker that cuts connections for long can make requests fail. Refusals that
// come before the key is known (a credential that does not decode) carry no seal; a client takes
// them for a failure, never for an answer.
//
// # Connections
//
// Any program of any host can connect to a daemon's port. Until a credential that came by a
// connection was right, the connection is a stranger's, of which there are few and which are closed
// soon (connections.go). gRPC tells of each request before it makes anything for it, so what waits
// for munge is counted by connection, and little is read meanwhile.
//
// # Calls that are sent again
//
// So a server may close a client's connection before the client's credential was decoded, because other
// programs of the client's host have opened many. The client then sends its call again, with pauses, for
// 20 s (call.go, link.go):
//
//	client                                             server
//	──────                                             ──────
//	ticket of version 1, nonce N ─────────────────────► waits for munge; the connection is closed
//	ticket of version 2, nonce N, age ────────────────► N is new: the call is carried out
//	                                                    N was admitted: refused
//	                                                    the server began less than age (and 10 s) ago: refused
//
// A server admits each nonce once, so a call is carried out at most once. Where the server refuses a call
// that was sent again, the client returns the error of the connection that was closed: the call may have been
// carried out. A message of the server that a call is admitted would not do, for the message can be lost with
// the connection. A server that has just begun does not know which nonces the process before has admitted. A
// server of an older release refuses tickets of version 2.
//
// A daemon that cannot be reached, or that is silent until gRPC gives the connection up, is not asked again.
//
// # Replays
//
// munged refuses a credential that it has decoded already, but a restart makes it forget them, and
// each node has a munged of its own. Therefore a ticket names its node, and a CredentialCheck remembers nonces
// for as long as munge calls credentials fresh.
//
// # Why the programs
//
// munge and unmunge are run as programs. libmunge would need cgo, and with cgo a binary per libc;
// the protocol between libmunge and munged is documented nowhere and munged's own to change. A
// run takes about two milliseconds; a checkpoint makes some ten runs.
package munge
