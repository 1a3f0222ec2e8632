// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0
// devices: 2
// expect: captured: 1 2
// expect: once: 3 3
// expect: twice: 6 6
// expect: in a graph: 12 12
// expect: in a group: 24 24

/* Collectives that are captured, by two ranks of a single process, and counted at each launch of their graphs. */
#include "check.h"

#include <nccl.h>

#define NCCL(call) HOLDS((call) == ncclSuccess)

static CUcontext ctx[2];
static CUstream s[2];
static CUdeviceptr a[2];
static ncclComm_t comm[2];

static void show_words(const char *name)
{
	unsigned int words[2];

	for (int i = 0; i < 2; ++i) {
		OK(cuCtxSetCurrent(ctx[i]));
		OK(cuStreamSynchronize(s[i]));
		OK(cuMemcpyDtoH(&words[i], a[i], 4));
	}
	printf("%s: %u %u\n", name, words[0], words[1]);
}

int main(void)
{
	ncclUniqueId id;
	CUgraph g[2], outer[2];
	CUgraphExec x[2], y[2];

	OK(cuInit(0));
	NCCL(ncclGetUniqueId(&id));
	NCCL(ncclGroupStart());
	for (int i = 0; i < 2; ++i) {
		OK(cuDevicePrimaryCtxRetain(&ctx[i], i));
		OK(cuCtxSetCurrent(ctx[i]));
		OK(cuStreamCreate(&s[i], CU_STREAM_NON_BLOCKING));
		OK(cuMemAlloc(&a[i], 4));
		OK(cuMemsetD32(a[i], (unsigned int)i + 1, 1));
		OK(cuCtxSynchronize()); /* the stream waits for nothing in the default stream */
		NCCL(ncclCommInitRank(&comm[i], 2, id, i));
	}
	NCCL(ncclGroupEnd());
	for (int i = 0; i < 2; ++i) {
		OK(cuCtxSetCurrent(ctx[i]));
		OK(cuStreamBeginCapture(s[i], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
		NCCL(ncclAllReduce((void *)a[i], (void *)a[i], 1, ncclUint32, ncclSum, comm[i], s[i]));
		OK(cuStreamEndCapture(s[i], &g[i]));
		OK(cuGraphInstantiate(&x[i], g[i], 0));
	}
	show_words("captured");
	for (int k = 0; k < 2; ++k) {
		for (int i = 0; i < 2; ++i) {
			OK(cuCtxSetCurrent(ctx[i]));
			OK(cuGraphLaunch(x[i], s[i]));
		}
		show_words(k == 0 ? "once" : "twice");
	}
	for (int i = 0; i < 2; ++i) {
		OK(cuCtxSetCurrent(ctx[i]));
		OK(cuStreamBeginCapture(s[i], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
		OK(cuGraphLaunch(x[i], s[i]));
		OK(cuStreamEndCapture(s[i], &outer[i]));
		OK(cuGraphInstantiate(&y[i], outer[i], 0));
	}
	for (int i = 0; i < 2; ++i) {
		OK(cuCtxSetCurrent(ctx[i]));
		OK(cuGraphLaunch(y[i], s[i]));
	}
	show_words("in a graph");
	/* A group of both ranks. Their streams are captured into graphs of their own, as nccl-tests does with -G. */
	for (int i = 0; i < 2; ++i) {
		OK(cuCtxSetCurrent(ctx[i]));
		OK(cuStreamBeginCapture(s[i], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	}
	NCCL(ncclGroupStart());
	for (int i = 0; i < 2; ++i)
		NCCL(ncclAllReduce((void *)a[i], (void *)a[i], 1, ncclUint32, ncclSum, comm[i], s[i]));
	NCCL(ncclGroupEnd());
	for (int i = 0; i < 2; ++i) {
		OK(cuCtxSetCurrent(ctx[i]));
		OK(cuStreamEndCapture(s[i], &g[i]));
		OK(cuGraphInstantiate(&x[i], g[i], 0));
		OK(cuGraphLaunch(x[i], s[i]));
	}
	show_words("in a group");
	/* A graph without work goes into a stream of any device, as where a rank of nccl-tests has no elements. */
	OK(cuCtxSetCurrent(ctx[1]));
	OK(cuStreamBeginCapture(s[0], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	OK(cuStreamEndCapture(s[0], &g[0]));
	OK(cuGraphInstantiate(&x[0], g[0], 0));
	OK(cuGraphLaunch(x[0], s[0]));
	OK(cuCtxSynchronize());
	return (0);
}
