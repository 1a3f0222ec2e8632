// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * Making communicators and ending them. To make a communicator is to tell the server, which begins to look for
 * the other members and answers at once, and then to wait for the members (sing_group_made): at the call, at
 * the end of the group, or, for a communicator that does not block, whenever the program asks.
 */
#include "nccl.h"

#include "../../wire/attach.h"
#include "ops.h"
#include "send.h"
#include "transport.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { MAGIC = (int)0xcafebeef };

/* The numbers of a configuration: their offset, the first version of NCCL that has them, and their limits. */
static const struct {
	int name, version;
	unsigned int at;
	int least, most;
} settings[] = {
	{ singConfigBlocking, 21400, 16, 0, 1 },
	{ singConfigCgaClusterSize, 21700, 20, 0, INT_MAX },
	{ singConfigMinCTAs, 21700, 24, 1, INT_MAX },
	{ singConfigMaxCTAs, 21700, 28, 1, INT_MAX },
	{ singConfigSplitShare, 21800, 40, 0, 1 },
	{ singConfigTrafficClass, 22500, 44, INT_MIN, INT_MAX },
	{ singConfigCollnetEnable, 22700, 56, 0, 1 },
	{ singConfigCTAPolicy, 22700, 60, 0, INT_MAX },
	{ singConfigShrinkShare, 22700, 64, 0, 1 },
	{ singConfigNvlsCTAs, 22700, 68, 1, INT_MAX },
	{ singConfigChannelsPerNetPeer, 22800, 72, 1, INT_MAX },
	{ singConfigNvlinkCentricSched, 22800, 76, 0, 1 },
};
enum { SETTINGS = sizeof(settings) / sizeof(*settings) };

struct config {
	int names[SETTINGS];
	unsigned long long values[SETTINGS];
	unsigned int n;
	bool blocking;
};

/* Read what the program set. Members that the program did not set are INT_MIN. */
static ncclResult_t read_config(const void *from, struct config *to)
{
	const unsigned char *p = from;
	unsigned int magic, version, min = 0, max = UINT_MAX;
	size_t size;

	to->n = 0;
	if (from == NULL)
		return ncclSuccess;
	memcpy(&size, p, 8);
	memcpy(&magic, p + 8, 4);
	memcpy(&version, p + 12, 4);
	if (magic != (unsigned int)MAGIC || size < 20)
		return sing_nccl_fail(ncclInvalidArgument, "the configuration is not initialized");
	for (unsigned int i = 0; i < SETTINGS; ++i) {
		int value;

		if (version < (unsigned int)settings[i].version || size < settings[i].at + 4)
			continue;
		memcpy(&value, p + settings[i].at, 4);
		if (value == INT_MIN)
			continue;
		if (value < settings[i].least || value > settings[i].most)
			return sing_nccl_fail(ncclInvalidArgument, "configuration: setting %d is %d", settings[i].name, value);
		if (settings[i].name == singConfigBlocking)
			to->blocking = value == 1;
		if (settings[i].name == singConfigMinCTAs)
			min = (unsigned int)value;
		if (settings[i].name == singConfigMaxCTAs)
			max = (unsigned int)value;
		to->names[to->n] = settings[i].name;
		to->values[to->n++] = (unsigned long long)(long long)value;
	}
	if (min > max)
		return sing_nccl_fail(ncclInvalidArgument, "configuration: %u CTAs at least and %u at most", min, max);
	return ncclSuccess;
}

/* Enter the communicator that the server has begun to make; *handle is the handle that the program gets. */
static ncclResult_t enter_comm(int r, ncclComm_t *handle, bool blocking)
{
	struct sing_comm *c;

	if (r != ncclSuccess) {
		*handle = NULL;
		return sing_nccl_result(r);
	}
	c = sing_comm_enter(*handle, blocking);
	if (c == NULL) {
		sing_send_ncclCommAbort(0, *handle);
		*handle = NULL;
		return sing_nccl_fail(ncclSystemError, "no memory");
	}
	return sing_group_made(c, handle);
}

/* Make a device's primary context current, as the runtime library does, on which NCCL is built. */
static ncclResult_t with_device(int dev)
{
	CUcontext context;
	int r = sing_cuInit(0);

	if (r == CUDA_SUCCESS)
		r = sing_cuDevicePrimaryCtxRetain(&context, dev);
	if (r == CUDA_SUCCESS)
		r = sing_cuCtxPushCurrent_v2(context);
	if (r != CUDA_SUCCESS)
		return sing_nccl_fail(ncclUnhandledCudaError, "device %d: error %d of the driver", dev, r);
	return ncclSuccess;
}

static ncclResult_t init_comm(ncclComm_t *comm, int ranks, int rank, const ncclUniqueId *ids, int n, const void *config)
{
	struct config set = { .blocking = true };
	CUcontext current = NULL;
	ncclResult_t r;

	if (comm == NULL || ids == NULL || n < 1)
		return sing_nccl_fail(ncclInvalidArgument, "ncclCommInitRank: NULL");
	*comm = NULL;
	if (ranks < 1 || rank < 0 || rank >= ranks || n > ranks)
		return sing_nccl_fail(ncclInvalidArgument, "ncclCommInitRank: rank %d of %d, %d ids", rank, ranks, n);
	r = read_config(config, &set);
	if (r == ncclSuccess && (sing_cuCtxGetCurrent(&current) != CUDA_SUCCESS || current == NULL))
		r = with_device(0);
	if (r != ncclSuccess)
		return r;
	r = sing_send_comm_init(0, comm, ranks, rank, ids, n, set.names, set.values, set.n);
	return enter_comm(r, comm, set.blocking);
}

ncclResult_t sing_ncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank)
{
	return sing_group_spoil(init_comm(comm, ranks, rank, &id, 1, NULL));
}
SING_PUBLIC(ncclCommInitRank);

ncclResult_t sing_ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank, void *config)
{
	return sing_group_spoil(init_comm(comm, ranks, rank, &id, 1, config));
}
SING_PUBLIC(ncclCommInitRankConfig);

ncclResult_t sing_ncclCommInitRankScalable(ncclComm_t *comm, int ranks, int rank, int n, const ncclUniqueId *ids, void *config)
{
	return sing_group_spoil(init_comm(comm, ranks, rank, ids, n, config));
}
SING_PUBLIC(ncclCommInitRankScalable);

/* Whether a list of devices is valid: each exists, and is listed once. */
static ncclResult_t check_devices(int n, const int *devices)
{
	int count = 0;
	const int r = sing_cuInit(0) == CUDA_SUCCESS ? sing_cuDeviceGetCount(&count) : CUDA_ERROR_NOT_INITIALIZED;

	if (r != CUDA_SUCCESS)
		return sing_nccl_fail(ncclUnhandledCudaError, "ncclCommInitAll: error %d of the driver", r);
	if (n > count)
		return sing_nccl_fail(ncclInvalidArgument, "ncclCommInitAll: %d of %d devices", n, count);
	for (int i = 0; devices != NULL && i < n; ++i) {
		if (devices[i] < 0 || devices[i] >= count)
			return sing_nccl_fail(ncclInvalidArgument, "ncclCommInitAll: device %d of %d", devices[i], count);
		for (int j = 0; j < i; ++j)
			if (devices[j] == devices[i])
				return sing_nccl_fail(ncclInvalidUsage, "ncclCommInitAll: device %d twice", devices[i]);
	}
	return ncclSuccess;
}

ncclResult_t sing_ncclCommInitAll(ncclComm_t *comms, int n, const int *devices)
{
	ncclUniqueId id;
	ncclResult_t r, ended;

	if (comms == NULL || n < 0)
		return sing_group_spoil(sing_nccl_fail(ncclInvalidArgument, "ncclCommInitAll: %d communicators", n));
	r = check_devices(n, devices);
	if (r == ncclSuccess)
		r = sing_ncclGetUniqueId(&id);
	if (r != ncclSuccess)
		return sing_group_spoil(r);
	sing_ncclGroupStart();
	for (int i = 0; i < n && r == ncclSuccess; ++i) {
		CUcontext before;

		r = with_device(devices != NULL ? devices[i] : i);
		if (r != ncclSuccess)
			break;
		r = init_comm(&comms[i], n, i, &id, 1, NULL);
		sing_cuCtxPopCurrent_v2(&before);
	}
	sing_group_spoil(r);
	ended = sing_ncclGroupEnd();
	return r != ncclSuccess ? r : ended;
}
SING_PUBLIC(ncclCommInitAll);

static unsigned char *put_bytes(unsigned char *at, const void *from, size_t n)
{
	memcpy(at, from, n);
	return at + n;
}

/*
 * As the generated function, but counted: a split takes its turn among the collectives of its communicator,
 * and if a cut stopped the job when only some members have issued the split, these would wait for the
 * others.
 */
static int split_counted(ncclComm_t comm, int color, int key, ncclComm_t *part, const struct config *set)
{
	const struct sing_count count = { .key = (uintptr_t)comm & ((1ull << SING_COUNT_PEER) - 1), .n = 1 };
	const struct ring_need need = { .op = SING_OP_comm_split, .call = true, .counts = 1, .count = &count };
	const uint64_t made = sing_handle_new(SING_CLASS_COMM), n = set->n;
	unsigned char message[44 + sizeof(set->names) + sizeof(set->values)], *p = message;
	struct ring_draft d;
	size_t size;
	int r;

	p = put_bytes(p, &comm, 8);
	p = put_bytes(p, &color, 4);
	p = put_bytes(p, &key, 4);
	p = put_bytes(p, &made, 8);
	p = put_bytes(p, &n, 8);
	p = put_bytes(p, set->names, n * sizeof(*set->names));
	p = put_bytes(p, &n, 8);
	p = put_bytes(p, set->values, n * sizeof(*set->values));
	p = put_bytes(p, &set->n, 4);
	size = (size_t)(p - message);
	r = sing_stage(&d, need, size, &p);
	if (r == 0) {
		memcpy(p, message, size);
		r = SING_GONE;
		if (ring_call(&d) == RING_OK) {
			r = d.status;
			ring_done(&d);
		}
	}
	*part = (ncclComm_t)(uintptr_t)made;
	if (r != ncclSuccess && r != ncclInProgress)
		sing_handle_drop(SING_CLASS_COMM, made);
	return r == SING_GONE ? ncclRemoteError : r;
}

ncclResult_t sing_ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *part, void *config)
{
	struct config set;
	struct sing_comm *c;
	ncclComm_t made;
	ncclResult_t r = sing_comm_ready(comm, &c);

	if (r != ncclSuccess)
		return sing_group_spoil(r);
	set.blocking = c->blocking;
	if (part == NULL || color < -1)
		return sing_group_spoil(sing_nccl_fail(ncclInvalidArgument, "ncclCommSplit: color %d, or NULL", color));
	*part = NULL;
	r = read_config(config, &set);
	if (r != ncclSuccess)
		return sing_group_spoil(r);
	r = split_counted(comm, color, key, &made, &set);
	if (color == -1) /* this rank takes part in the split, and gets no communicator */
		return sing_group_spoil(sing_nccl_result(r));
	*part = made;
	return sing_group_spoil(enter_comm(r, part, set.blocking));
}
SING_PUBLIC(ncclCommSplit);

ncclResult_t sing_ncclCommFinalize(ncclComm_t comm)
{
	int ready = SING_COMM_READY;
	struct sing_comm *c;
	ncclResult_t r = sing_comm_ready(comm, &c);

	if (r != ncclSuccess)
		return r;
	if (!atomic_compare_exchange_strong(&c->state, &ready, SING_COMM_FINAL))
		return sing_nccl_fail(ncclInvalidUsage, "ncclCommFinalize: it was finalized before");
	r = sing_nccl_result(sing_send_comm_finalize(0, comm));
	if (r != ncclSuccess)
		return r;
	return c->blocking ? sing_comm_ask(c, true) : ncclInProgress;
}
SING_PUBLIC(ncclCommFinalize);

/* The handle is invalid from now on. The server frees the communicator when its work is done, or at once. */
static ncclResult_t end_comm(ncclComm_t comm, ncclResult_t (*send)(uint32_t, ncclComm_t))
{
	struct sing_comm *c;
	int state;

	if (comm == NULL)
		return ncclSuccess;
	c = sing_comm_find(comm);
	if (c == NULL)
		return ncclInvalidArgument;
	state = atomic_load(&c->state);
	do {
		if (state == SING_COMM_ENDED)
			return sing_nccl_fail(ncclInvalidArgument, "communicator %p was destroyed", (void *)comm);
	} while (!atomic_compare_exchange_weak(&c->state, &state, SING_COMM_ENDED));
	return sing_nccl_result(send(0, comm));
}

ncclResult_t sing_ncclCommDestroy(ncclComm_t comm)
{
	return end_comm(comm, sing_send_ncclCommDestroy);
}
SING_PUBLIC(ncclCommDestroy);

ncclResult_t sing_ncclCommAbort(ncclComm_t comm)
{
	return end_comm(comm, sing_send_ncclCommAbort);
}
SING_PUBLIC(ncclCommAbort);
