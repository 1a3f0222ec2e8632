// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * The protocol of a process and its job's device server beside the ring (wire.h): how the process
 * gets the ring, and the parts of every message. attach.go and letter.go are the server's half; a
 * test compares the numbers.
 *
 *	process                                         device server
 *	connect to $SINGULARITY_SLURM_DEVICE    ──►
 *	sing_ask, with the read end of a pipe   ──►     a pidfd of the peer; may its memory be read?
 *	                                        ◄──     sing_welcome, with the ring's memfd
 *	close the socket
 *
 * The socket is SOCK_SEQPACKET, and each of the two is a single message. The process keeps the
 * write end of the pipe, close-on-exec, and no other descriptor: end of file of the pipe tells
 * the server that the process is gone, has executed another program, or has merely closed the
 * pipe. sing_ring.pipe is the inode of the pipe: a process that was restored, or that has a new
 * server, has another pipe. A pipe without a reader tells the process that the server is gone.
 *
 * A server that has stopped its job refuses every process at once (ERESTART): a process that waited
 * would have a socket open, and could not be dumped.
 */
#ifndef SING_ATTACH_WIRE_H
#define SING_ATTACH_WIRE_H

#include <stddef.h>
#include <stdint.h>

#define SING_DEVICE_ENV "SINGULARITY_SLURM_DEVICE"
#define SING_ATTACH_MAGIC 0x44474e53u /* "SNGD" */

enum {
	SING_ATTACH_VERSION = 2,
	SING_REACHABLE = 1, /* sing_welcome.flags: the server can read and write the process's memory */
};

struct sing_ask {
	uint32_t magic, version;
	uint64_t probe; /* where SING_ATTACH_MAGIC stands in the process's memory */
	uint32_t visible, names; /* the lengths of two texts that follow: the values of the two variables below */
};
_Static_assert(sizeof(struct sing_ask) == 24, "layout");

/*
 * Which devices the process is to see, and Slurm's names of the job's devices, in their order,
 * where the name comes first.
 */
#define SING_VISIBLE_ENV "CUDA_VISIBLE_DEVICES"
#define SING_NAMES_ENV "SINGULARITY_SLURM_DEVICE_NAMES"
#define SING_VISIBLE_MAX 2048	      /* bytes of each */
#define SING_VISIBLE_UNSET 0xffffffffu /* in the place of a length: there is no such variable */

/*
 * The library for products of matrices that a program has cuBLAS compute on software GPUs: SING_BLAS_NATIVE for the software
 * GPU, SING_BLAS_VENDOR or an unset variable for the vendor's library. A process that is restored keeps its first choice.
 */
#define SING_BLAS_ENV "SINGULARITY_SLURM_BLAS"
#define SING_BLAS_NATIVE "native"
#define SING_BLAS_VENDOR "vendor"

struct sing_welcome {
	int32_t error; /* an errno, ERESTART: ask again; or 0: then the ring comes with the answer */
	uint32_t version, flags, reserved;
};
_Static_assert(sizeof(struct sing_welcome) == 16, "layout");

/*
 * The arguments of every message begin with the handle of the context that is current in the sender, 8 bytes,
 * 0 if there is none. Then come the arguments by the table of calls. Beside the numbers of the table, which
 * are hashes, there are these:
 */
enum {
	SING_OP_LONG = 1,   /* a struct sing_long: the real message is in the process's memory */
	SING_OP_MISSED = 2, /* posted; a text: the call that the program wanted and that is not covered */
	SING_OP_EXIT = 3,   /* posted; the process ends of its own will: posted messages are to be carried out */
	SING_OP_OURS = 16,  /* operations below are not the table's */
};

/*
 * A message or an answer that does not fit into the ring: always a call; its answer is the real
 * answer's length, 8 bytes.
 */
struct sing_long {
	uint64_t address, length; /* of the message, without the context */
	uint64_t answer, room;	  /* where the answer goes, and how much fits there */
	uint32_t op, reserved;
};
_Static_assert(sizeof(struct sing_long) == 40, "layout");

/*
 * The key that a message is counted for is a single number: a communicator's handle, without its
 * class, and for a send or a receive the peer.
 */
#define SING_COUNT_KIND 62 /* the two bits from here: 0 collective, 1 send, 2 receive */
#define SING_COUNT_PEER 40 /* 22 bits from here */

#endif
