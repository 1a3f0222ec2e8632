// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * The agreements between a process and its job's device server beside the ring (wire.h): how the
 * process gets the ring, and the common parts of messages. attach.go and letter.go are the server's
 * half; a test compares the numbers.
 *
 *	process                                         device server
 *	connect to $SINGULARITY_SLURM_DEVICE    ──►
 *	sing_ask, with the read end of a pipe   ──►     a pidfd of the peer; may its memory be read?
 *	                                        ◄──     sing_welcome, with the ring's memfd
 *	close the socket
 *
 * The socket is SOCK_SEQPACKET, and each of the two is a single message. The only descriptor that
 * the process keeps is the write end of the pipe, close-on-exec. The pipe's end of file tells the
 * server that the process has ended, has executed another program, or has merely closed the pipe.
 * sing_ring.pipe names the pipe, because a process that was restored, or that has a new server, has
 * another pipe. If the pipe has no reader, the process knows that the server has ended.
 *
 * A server that has stopped its job attaches no process, and does not let a process wait: a waiting
 * process has a socket open, and cannot be dumped.
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
	uint32_t visible, names; /* the lengths of the two texts that follow, the values of these variables */
};
_Static_assert(sizeof(struct sing_ask) == 24, "layout");

/*
 * The variables with the devices that the process is to see, and with Slurm's names of the job's
 * devices. Both texts are behind sing_ask, in this order.
 */
#define SING_VISIBLE_ENV "CUDA_VISIBLE_DEVICES"
#define SING_NAMES_ENV "SINGULARITY_SLURM_DEVICE_NAMES"
#define SING_VISIBLE_MAX 2048	      /* bytes of each */
#define SING_VISIBLE_UNSET 0xffffffffu /* in the place of a length: the variable is not set */

/*
 * The variable that chooses where cuBLAS's products of matrices are computed on software GPUs: SING_BLAS_NATIVE: by the
 * software GPU, SING_BLAS_VENDOR or unset: by the vendor's library. A restored process keeps the choice of its start.
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
	SING_OP_MISSED = 2, /* posted; a text: the call or option of the program that is not covered */
	SING_OP_EXIT = 3,   /* posted; the process ends by itself: the server carries out all posted messages */
	SING_OP_OURS = 16,  /* the numbers of the table begin here */
};

/*
 * A message or an answer that does not fit into the ring: always a call; its answer is the real
 * answer's length, 8 bytes.
 */
struct sing_long {
	uint64_t address, length; /* of the message, without the context */
	uint64_t answer, room;	  /* the place of the answer, and its size */
	uint32_t op, reserved;
};
_Static_assert(sizeof(struct sing_long) == 40, "layout");

/*
 * The key for which a message is counted: a communicator's handle without its class, and the peer
 * of a send or a receive.
 */
#define SING_COUNT_KIND 62 /* the two bits from here: 0 collective, 1 send, 2 receive */
#define SING_COUNT_PEER 40 /* 22 bits from here */

#endif
