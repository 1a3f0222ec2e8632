// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package meeting brings the members of a communicator together. All that they have in common is an identity
// that a member made and sent to the other members by its own means: NCCL's unique id. Each rank announces
// itself. When all ranks are there, each gets the roster with which package collective connects them.
//
//	Local   members within one process
//	Host    members of other processes, too, over TCP. The identity has its maker's address and a secret
//
// # On the wire
//
// A rank outside of the process that made the identity keeps one connection to that process while the rank
// waits:
//
//	rank → host   hello    magic 8, nonce of the identity 16, challenge 32
//	host → rank   answer   challenge 32, MAC 32
//	rank → host   here     size u32, rank u32, number of its server u32, address, MAC 32
//	host → rank   roster   when all are there: length u32, a byte that is 1, nonce 32, for each rank the number of its server u32
//	                       and its address, MAC 32
//	              failure  if the gathering fails: length u32, a byte that is 0, the reason, MAC 32
//
// An address is a u16 and as many bytes; numbers are little-endian. A MAC is HMAC-SHA-256 with the identity's
// secret over the sender's role, both challenges and the message. The secret does not travel: the host
// derives it from its own key and the nonce. The communicator's key does not travel, either: both ends derive
// it from the secret and the roster's nonce. Addresses are not secret.
//
// A connection that ends before the roster was sent means that the rank has left: the gathering fails, and
// all ranks get the failure. A host keeps maxHandshakes connections in their
// handshake (package strangers). After the end of a connection that was closed to make room, the rank calls again.
//
// # Again
//
// A server that takes the place of another server assumes the Identity of that server, so that ranks can
// still use identities that the earlier server made: they meet at the address that Move gives for the maker.
// Host.Again makes existing communicators again: their servers meet as ranks do, at the server with the
// lowest number. The nonce and the secret of this meeting are derived from the communicator's key and from
// the life of that server, a random number that a server makes at its start and that is part of its Address.
// A server of an earlier life knows the key but not the present life. The new key is derived from a fresh
// nonce, so an earlier connection is never taken for a present connection.
package meeting
