// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package munge lets gRPC services know who asks, by the credentials that every Slurm
// cluster already has. It imports nothing of ours and serves any service whose requests
// are unary; replies may stream.
//
// # What is said
//
//	client                                             server, root, on node n1
//	──────                                             ────────────────────────
//	request := the bytes of the message
//	ticket  := {method, to: "n1", from, nonce,
//	            size and SHA-256 of request, key}
//	credential := munge --restrict-uid=0 ticket
//	metadata: credential ─────────────────────────────► unmunge: uid and gid of who asks; munge says
//	                                                    expired, rewound, replayed, other realm
//	                                                    ticket: this method? this node? nonce new?
//	                                                    size: may who asks send as much?
//	request, in pieces ───────────────────────────────► size and SHA-256 as in the ticket? no more than
//	                                                    that is read; only now is the message parsed
//	◄────────────────────────────────────────── replies
//	◄───────────────────────── status; trailer: seal := HMAC-SHA256(key, replies and status)
//	seal right? else the answer is none
//
// A credential can be read by root only, of any node that has the cluster's munge key.
// So nobody can take it from a proxyd's port while proxyd is down and use it, and the key
// in it proves that the reply is from root of a node of this cluster, unchanged and
// complete: a status, an error's details and the end of a stream cannot be forged either.
// Messages of a stream are handed out before the seal is seen; what they say counts only
// when the stream has ended well.
//
// # What this does not do
//
// Nothing is encrypted, as in Slurm's own traffic without TLS. Root of one node is
// believed on all nodes, as with Slurm. Who cuts connections can make requests fail.
// Refusals that come before the key is known (a credential that does not decode) carry no
// seal; a client takes them for a failure, never for an answer.
//
// # Replays
//
// munged refuses a credential that it has decoded already, but forgets all when it is
// restarted, and each node has its own. Therefore a ticket names its node, and a Gate
// remembers nonces for as long as munge calls credentials fresh.
//
// # Why the programs
//
// munge and unmunge are run as programs. libmunge would need cgo, and with it a binary per
// libc; the protocol between libmunge and munged is documented nowhere and munged's own to
// change. One run takes about two milliseconds; a checkpoint asks some ten times.
package munge
