// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* NCCL's calls, found at run time, and the C code around them. Types and numbers are those of its ABI. */
#ifndef CUDA_NCCL_H
#define CUDA_NCCL_H

#include <stddef.h>
#include <stdint.h>

typedef struct ncclComm *ncclComm_t;
typedef int ncclResult_t;
typedef struct {
	char internal[128];
} ncclUniqueId;

/* The beginning of ncclConfig_t, as NCCL 2.14 has it. By size and version newer releases know that the rest is missing. */
struct sing_nccl_config {
	size_t size;
	unsigned int magic, version;
	int blocking;
};
_Static_assert(offsetof(struct sing_nccl_config, blocking) == 16, "ncclConfig_t");

enum { SING_NCCL_MAGIC = 0xcafebeef, SING_NCCL_CONFIG = 21400, SING_NCCL_IN_PROGRESS = 7, SING_NCCL_ABSENT = -1 };

/* name, result, arguments, whether we can do without */
#define SING_NCCL_CALLS(X) \
	X(ncclGetVersion, ncclResult_t, (int *version), 0) \
	X(ncclGetUniqueId, ncclResult_t, (ncclUniqueId * id), 0) \
	X(ncclGetErrorString, const char *, (ncclResult_t r), 0) \
	X(ncclGetLastError, const char *, (ncclComm_t comm), 1) \
	X(ncclCommInitRank, ncclResult_t, (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank), 0) \
	X(ncclCommInitRankConfig, ncclResult_t, (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank, struct sing_nccl_config *config), 1) \
	X(ncclCommFinalize, ncclResult_t, (ncclComm_t comm), 1) \
	X(ncclCommDestroy, ncclResult_t, (ncclComm_t comm), 0) \
	X(ncclCommAbort, ncclResult_t, (ncclComm_t comm), 0) \
	X(ncclCommGetAsyncError, ncclResult_t, (ncclComm_t comm, ncclResult_t * error), 0) \
	X(ncclGroupStart, ncclResult_t, (void), 0) \
	X(ncclGroupEnd, ncclResult_t, (void), 0) \
	X(ncclAllReduce, ncclResult_t, (const void *src, void *dst, size_t n, int type, int op, ncclComm_t comm, void *stream), 0) \
	X(ncclReduce, ncclResult_t, (const void *src, void *dst, size_t n, int type, int op, int root, ncclComm_t comm, void *stream), 0) \
	X(ncclReduceScatter, ncclResult_t, (const void *src, void *dst, size_t n, int type, int op, ncclComm_t comm, void *stream), 0) \
	X(ncclBroadcast, ncclResult_t, (const void *src, void *dst, size_t n, int type, int root, ncclComm_t comm, void *stream), 0) \
	X(ncclAllGather, ncclResult_t, (const void *src, void *dst, size_t n, int type, ncclComm_t comm, void *stream), 0) \
	X(ncclSend, ncclResult_t, (const void *src, size_t n, int type, int peer, ncclComm_t comm, void *stream), 0) \
	X(ncclRecv, ncclResult_t, (void *dst, size_t n, int type, int peer, ncclComm_t comm, void *stream), 0) \
	X(ncclRedOpCreatePreMulSum, ncclResult_t, (int *op, void *scalar, int type, int residence, ncclComm_t comm), 1) \
	X(ncclRedOpDestroy, ncclResult_t, (int op, ncclComm_t comm), 1)

struct sing_nccl {
#define SING_NCCL_POINTER(name, result, arguments, optional) result(*name) arguments;
	SING_NCCL_CALLS(SING_NCCL_POINTER)
};

/* Opens a library and finds all calls. On error the library is closed, and why names what is missing. */
int sing_nccl_open(struct sing_nccl *n, const char *path, char *why, size_t room);

/* Calls of one line: Go cannot call a C function by its pointer. */
const char *sing_nccl_error(const struct sing_nccl *n, ncclResult_t r);
const char *sing_nccl_last(const struct sing_nccl *n, ncclComm_t comm); /* "" if the library does not tell */
ncclResult_t sing_nccl_version(const struct sing_nccl *n, int *version);
ncclResult_t sing_nccl_id(const struct sing_nccl *n, void *id);
ncclResult_t sing_nccl_destroy(const struct sing_nccl *n, ncclComm_t comm);
ncclResult_t sing_nccl_abort(const struct sing_nccl *n, ncclComm_t comm);

/* Begins to make a communicator: without waiting, if the library can. */
ncclResult_t sing_nccl_init(const struct sing_nccl *n, ncclComm_t *comm, int ranks, const void *id, int rank);

/* Asks a communicator to come to its end, and tells how far it is: the caller asks sing_nccl_state then. */
ncclResult_t sing_nccl_finalize(const struct sing_nccl *n, ncclComm_t comm);
ncclResult_t sing_nccl_state(const struct sing_nccl *n, ncclComm_t comm);

/* One operation of a group. The numbers of kinds are those of package backend. */
struct sing_nccl_op {
	int kind, type, op, root;
	size_t count;
	uint64_t src, dst;
	const void *scale; /* NULL, or a factor, an element of the type: then op is not looked at */
};
enum { ALL_REDUCE, REDUCE, REDUCE_SCATTER, BROADCAST, ALL_GATHER, ALL_TO_ALL, GATHER, SCATTER, SEND, RECV };

/* Issues operations as one group. made gets the reductions made for the group, by op: 0 for an op without a factor. */
ncclResult_t sing_nccl_group(const struct sing_nccl *n, ncclComm_t comm, const struct sing_nccl_op *ops, size_t k, int rank, int ranks, void *stream, int *made);
void sing_nccl_forget(const struct sing_nccl *n, ncclComm_t comm, const int *made, size_t k);

#endif
