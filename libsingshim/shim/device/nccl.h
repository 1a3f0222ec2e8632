// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * What the shim knows of NCCL's communicators, so that what a program got wrong is refused at the call and what
 * the program did right costs a single posted message. The communicators themselves are the device server's.
 *
 *	nccl.c        communicators: find one, ask how it is; the last error's text
 *	nccl_init.c   making and ending them
 *	nccl_ops.c    collectives, sends and receives: what is wrong with one
 *	redop.c       reductions with a factor
 *	group.c       what a thread has between ncclGroupStart and ncclGroupEnd
 */
#ifndef SING_DEVICE_NCCL_H
#define SING_DEVICE_NCCL_H

#include "gen_abi.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum sing_comm_state {
	SING_COMM_MAKING, /* the members have not all come, or the state was not asked since */
	SING_COMM_READY,
	SING_COMM_FINAL, /* nothing more may be issued */
	SING_COMM_ENDED, /* destroyed or aborted: the handle is none */
};

/*
 * A communicator of this process. The struct stays when the communicator is gone, so that its handle is known
 * as spent.
 */
struct sing_comm {
	ncclComm_t handle;
	struct sing_comm *next;
	bool blocking;
	_Atomic int state;
	_Atomic int error; /* the result, when that was told */
	int ranks, rank, dev; /* from SING_COMM_READY on */

	pthread_mutex_t lock; /* of what follows */
	struct sing_redop *redops;
};

/* Say what was wrong, for ncclGetLastError, and return the result. */
__attribute__((format(printf, 2, 3))) ncclResult_t sing_nccl_fail(ncclResult_t result, const char *form, ...);

/* A result as NCCL has them: a fault of the device, which every call returns, is the driver's number. */
ncclResult_t sing_nccl_result(int result);

/* Enter a communicator that the server is making. NULL: no memory. */
struct sing_comm *sing_comm_enter(ncclComm_t handle, bool blocking);

/* The communicator behind a handle that is not spent, or NULL, with the error said. */
struct sing_comm *sing_comm_find(ncclComm_t handle);

/*
 * Ask the server for the state: ncclInProgress while the communicator is being made or finalized. With wait,
 * not before that is over. When the communicator is made, its rank and size are known.
 */
ncclResult_t sing_comm_ask(struct sing_comm *c, bool wait);

/* The same for a handle, and only a communicator that is ready is a success. */
ncclResult_t sing_comm_ready(ncclComm_t handle, struct sing_comm **c);

/* Check the reduction op for elements of that type: whether the op exists, and is not destroyed. */
bool sing_redop_is(struct sing_comm *c, ncclRedOp_t op, int type);

/* Bytes of an element; 0: there is no such type. */
unsigned int sing_nccl_size(int type);

/* Whether the calling thread is between ncclGroupStart and ncclGroupEnd. */
bool sing_group_open(void);

/* An error in a group spoils the group. Returns the error. */
ncclResult_t sing_group_spoil(ncclResult_t result);

/*
 * A communicator that was begun. Outside a group: wait for a blocking communicator; *handle becomes NULL on
 * failure. In a group the group's end does that.
 */
ncclResult_t sing_group_made(struct sing_comm *c, ncclComm_t *handle);

/*
 * A reduction is destroyed. What was gathered before may use the reduction, so in a group the message goes
 * behind the group.
 */
ncclResult_t sing_group_redop_gone(ncclRedOp_t op, ncclComm_t comm);

/* The next operation, which was checked: into the group, or at once if there is none. */
ncclResult_t sing_group_op(const struct sing_comm *c, const sing_nccl_op *op);

#endif
