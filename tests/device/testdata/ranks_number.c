// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0
// devices: 3
// expect: rank 0: 12 steps, 8ef78a50
// rung: splice

/* Ranks that see all GPUs and choose theirs by number, as PyTorch's do under torchrun. Each adds up the gradients of all
   ranks, and makes the same update. After half of the steps a single rank uses a second GPU, too: its memory there has other
   addresses than that on the first GPU, and both keep their bytes. */
#include "ranks.h"

#include <stdint.h>

enum { STEPS = 12, WORDS = 4096 };

static const char image[] = PTX(
	".visible .entry update(.param .u64 p, .param .u64 g)\n"
	"{\n"
	".reg .u32 %i, %t, %b, %d, %v; .reg .u64 %p, %g, %o;\n"
	"mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; mov.u32 %d, %ntid.x; mad.lo.u32 %i, %b, %d, %t;\n"
	"mul.wide.u32 %o, %i, 4; ld.param.u64 %p, [p]; add.u64 %p, %p, %o; ld.param.u64 %g, [g]; add.u64 %g, %g, %o;\n"
	"ld.global.u32 %i, [%p]; ld.global.u32 %v, [%g];\n"
	"mad.lo.u32 %i, %i, %v, %v; mad.lo.u32 %i, %i, %v, %v; mad.lo.u32 %i, %i, %v, %v; mad.lo.u32 %i, %i, %v, %v;\n"
	"st.global.u32 [%p], %i;\n"
	"ret;\n"
	"}\n");

/* The value of a word of the weights after a step: each rank's gradient is 100 times its number, plus the step's number, plus 1. */
static uint32_t expected_word(uint32_t was, int ranks, int step)
{
	uint32_t v = 0;

	for (int i = 0; i < ranks; ++i)
		v += (uint32_t)(100 * i + step + 1);
	for (int i = 0; i < 4; ++i)
		was = was * v + v;
	return (was);
}

/* Memory on another GPU has other addresses, is known to be there, and keeps its bytes. */
static void use_second(struct rank *r)
{
	CUcontext other;
	CUdeviceptr there;
	int dev = (r->rank + 1) % r->ranks, ordinal;
	uint32_t got[WORDS];

	OK(cuDevicePrimaryCtxRetain(&other, dev));
	OK(cuCtxSetCurrent(other));
	OK(cuMemAlloc(&there, MEMORY));
	HOLDS(there >= r->src + MEMORY || there + MEMORY <= r->src);
	OK(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, there));
	HOLDS(ordinal == dev);
	OK(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, r->src));
	HOLDS(ordinal == r->rank);
	OK(cuMemsetD32(there, 77, WORDS));
	OK(cuCtxSynchronize());
	OK(cuCtxSetCurrent(r->ctx));
	OK(cuMemcpyDtoD(r->dst, there, sizeof(got)));
	OK(cuMemcpyDtoH(got, r->dst, sizeof(got)));
	for (int i = 0; i < WORDS; ++i)
		HOLDS(got[i] == 77);
}

static void run_rank(struct rank *r)
{
	CUmodule module;
	CUfunction update;
	CUdeviceptr weights, gradients;
	uint32_t want = 5, got[WORDS];

	open_rank(r);
	OK(cuModuleLoadData(&module, image));
	OK(cuModuleGetFunction(&update, module, "update"));
	OK(cuMemAlloc(&weights, sizeof(got)));
	OK(cuMemAlloc(&gradients, sizeof(got)));
	OK(cuMemsetD32Async(weights, want, WORDS, r->stream));
	for (int step = 0; step < STEPS; ++step) {
		void *params[] = { &weights, &gradients };

		if (step == STEPS / 2 && r->rank == 1)
			use_second(r);
		OK(cuMemsetD32Async(gradients, (unsigned int)(100 * r->rank + step + 1), WORDS, r->stream));
		NOK(ncclAllReduce((void *)(uintptr_t)gradients, (void *)(uintptr_t)gradients, WORDS, ncclUint32, ncclSum, r->comm, r->stream));
		OK(cuLaunchKernel(update, WORDS / 128, 1, 1, 128, 1, 1, 0, r->stream, params, NULL));
		OK(cuMemcpyDtoHAsync(got, weights, sizeof(got), r->stream));
		OK(cuStreamSynchronize(r->stream));
		want = expected_word(want, r->ranks, step);
		for (int i = 0; i < WORDS; ++i)
			HOLDS(got[i] == want);
	}
	NOK(ncclCommDestroy(r->comm));
	if (r->rank == 0)
		printf("rank 0: %d steps, %08x\n", STEPS, want);
}

int main(void)
{
	as_processes(3, run_rank);
	return (0);
}
