// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* NCCL with a communicator of a single rank: the memory that it takes, and the cost of the host's wait around each group. */
#include "probe.h"

#include <dlfcn.h>
#include <nccl.h>

enum { GROUPS = 200, WORDS = 1 << 20 };

static struct {
	ncclResult_t (*id)(ncclUniqueId *);
	ncclResult_t (*init)(ncclComm_t *, int, ncclUniqueId, int);
	ncclResult_t (*all_reduce)(const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, CUstream);
	const char *(*text)(ncclResult_t);
} nccl;

static void check_nccl(const char *call, ncclResult_t r)
{
	char why[200];

	if (r == ncclSuccess)
		return;
	snprintf(why, sizeof(why), "%s: %s", call, nccl.text(r));
	cannot(why);
}

static void open_nccl(void)
{
	void *lib = dlopen("libnccl.so.2", RTLD_NOW);

	if (lib == NULL)
		cannot("there is no libnccl.so.2");
	*(void **)&nccl.id = dlsym(lib, "ncclGetUniqueId");
	*(void **)&nccl.init = dlsym(lib, "ncclCommInitRank");
	*(void **)&nccl.all_reduce = dlsym(lib, "ncclAllReduce");
	*(void **)&nccl.text = dlsym(lib, "ncclGetErrorString");
	if (nccl.id == NULL || nccl.init == NULL || nccl.all_reduce == NULL || nccl.text == NULL)
		cannot("libnccl.so.2 lacks a call");
}

static ncclComm_t new_communicator(void)
{
	ncclUniqueId id;
	ncclComm_t c;

	check_nccl("ncclGetUniqueId", nccl.id(&id));
	check_nccl("ncclCommInitRank", nccl.init(&c, 1, id, 0));
	return (c);
}

static void reduce_once(CUdeviceptr p, ncclComm_t c, CUstream s)
{
	check_nccl("ncclAllReduce", nccl.all_reduce((void *)p, (void *)p, WORDS, ncclFloat32, ncclSum, c, s));
}

void collectives(void)
{
	const size_t n = 4 * (size_t)WORDS;
	ncclComm_t first, second;
	CUstream s, t;
	CUdeviceptr p;
	unsigned int got = 0;
	double since;

	begin();
	open_nccl();
	OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
	p = new_addresses(n);
	map_memory(p, n, new_memory(n));
	OK(allow(p, n, ALLOW_ALL));
	OK(cuMemsetD32(p, 0x3f800000, WORDS));
	first = new_communicator();
	second = new_communicator();
	reduce_once(p, first, s);
	OK(cuStreamSynchronize(s));
	OK(cuMemcpyDtoH(&got, p, 4));
	answer_text("memory of cuMemCreate", got == 0x3f800000 ? "right" : "wrong");
	reduce_once(p, second, t);
	OK(cuStreamSynchronize(t));
	answer_text("a second communicator", "right");
	since = now_us();
	for (int i = 0; i < GROUPS; ++i)
		reduce_once(p, first, s);
	OK(cuStreamSynchronize(s));
	answer("a collective of 4 MiB, queued", (now_us() - since) / GROUPS, "us");
	since = now_us();
	for (int i = 0; i < GROUPS; ++i) {
		reduce_once(p, first, s);
		OK(cuStreamSynchronize(s));
	}
	answer("the same, the host waits for each", (now_us() - since) / GROUPS, "us");
}
