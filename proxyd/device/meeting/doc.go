// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package meeting brings the members of a communicator together, who know nothing of each other but an identity that
// one of them made and told the others over ways of its own: NCCL's unique id. Each rank announces itself, and when all
// are there, each gets the roster with which package collective connects them.
//
//	Local   members within one process
//	Host    those of other processes too, over TCP. The identity says where its maker listens, and holds a secret
//
// # On the wire
//
// A rank that is not in the process where the identity was made has one connection to there while it waits:
//
//	rank → host   hello    magic 8, nonce of the identity 16, challenge 32
//	host → rank   answer   challenge 32, MAC 32
//	rank → host   here     size u32, rank u32, number of its server u32, address, MAC 32
//	host → rank   roster   when all are there: length u32, a byte that is 1, nonce 32, for each rank the number of its server u32
//	                       and its address, MAC 32
//	              failure  or, if it will not be: length u32, a byte that is 0, the reason, MAC 32
//
// An address is a u16 and as many bytes; numbers are little-endian. MACs are HMAC-SHA-256 by the identity's secret over
// who speaks, both challenges and what is said. The secret does not travel: the host makes it of its own key and the nonce.
// Nor does the communicator's key, which both make of the secret and the roster's nonce. Addresses are no secret.
//
// A connection that ends is a rank that has left: then the communicator will not be, and all are told.
//
// # Again
//
// A server that takes the place of another one assumes its Identity, so that what was not met yet still can be: at the address
// that Move says its maker has today. Communicators that were are made again by Host.Again: their servers meet like ranks do, at
// that of the lowest number. The nonce by which they call the meeting and the secret come from the key that the communicator had,
// and from that server's life, a number that it makes up when it begins and that is part of its Address. A server of an earlier
// life knows the key, but not that; and the new key comes of a nonce that is new, so that no connection of earlier is taken for
// one of today.
package meeting
