// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * The shim's knowledge of NCCL's communicators, so that a wrong call is refused at once, and a right call costs
 * a single posted message. The communicators themselves are the device server's.
 *
 *	nccl.c        communicators: find one, ask how it is; the last error's text
 *	nccl_init.c   making and ending them
 *	nccl_ops.c    collectives, sends and receives: the checks of an operation
 *	redop.c       reductions with a factor
 *	group.c       the operations of a thread between ncclGroupStart and ncclGroupEnd
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
	SING_COMM_FINAL, /* no more operations may be issued */
	SING_COMM_ENDED, /* destroyed or aborted: the handle is invalid */
};

/*
 * A communicator of this process. The struct stays when the communicator has ended, so that its handle is
 * known to be invalid.
 */
struct sing_comm {
	ncclComm_t handle;
	struct sing_comm *next;
	bool blocking;
	_Atomic int state;
	_Atomic int error; /* the result, once it was reported */
	int ranks, rank, dev; /* from SING_COMM_READY on */

	pthread_mutex_t lock; /* of the members that follow */
	struct sing_redop *redops;
};

/* Keep the text of an error for ncclGetLastError, and return the result. */
__attribute__((format(printf, 2, 3))) ncclResult_t sing_nccl_fail(ncclResult_t result, const char *form, ...);

/*
 * The result as an error of NCCL: after a fault of the device, every call returns the driver's number of the
 * fault.
 */
ncclResult_t sing_nccl_result(int result);

/* Enter a communicator that the server is making. NULL: no memory. */
struct sing_comm *sing_comm_enter(ncclComm_t handle, bool blocking);

/* The communicator of a handle, or NULL for an invalid handle, with the text of the error kept. */
struct sing_comm *sing_comm_find(ncclComm_t handle);

/*
 * Ask the server for the state: ncclInProgress while the communicator is being made or finalized. With wait,
 * the call returns when that is over. When the communicator is made, its rank and size are known.
 */
ncclResult_t sing_comm_ask(struct sing_comm *c, bool wait);

/* The same for a handle; an error unless the communicator is ready. */
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
 * A reduction is destroyed. Operations that the group has gathered may use the reduction, so in a group
 * the message is sent after the group's.
 */
ncclResult_t sing_group_redop_gone(ncclRedOp_t op, ncclComm_t comm);

/* Issue an operation that was checked: into the group, or at once if no group is open. */
ncclResult_t sing_group_op(const struct sing_comm *c, const sing_nccl_op *op);

#endif
