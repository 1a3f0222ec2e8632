// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// A pipeline, as cuda::pipeline makes them: a warp copies tiles into shared memory in bulk, and other warps wait for each.
// expect: summed up, if the device is of 9.0 or newer

#include "check.h"

static const char image[] =
	".version 8.0\n.target sm_90\n.address_size 64\n"
	".visible .entry add_tiles(.param .u64 in, .param .u64 out, .param .u32 tiles)\n"
	"{\n"
	".shared .align 16 .b8 tile[128]; .shared .align 8 .b64 full; .shared .align 8 .b64 empty;\n"
	".reg .u64 %in, %out, %state; .reg .u32 %t, %n, %i, %at, %v, %sum, %odd; .reg .pred %copies, %done, %more;\n"
	"ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; ld.param.u32 %n, [tiles];\n"
	"mov.u32 %t, %tid.x; mov.u32 %i, 0; mov.u32 %sum, 0; setp.eq.u32 %copies, %t, 32;\n"
	"@%copies mbarrier.init.shared::cta.b64 [full], 1; @%copies mbarrier.init.shared::cta.b64 [empty], 32;\n"
	"bar.sync 0; setp.lt.u32 %more, %t, 32; @%more bra sums; @!%copies exit;\n"
	"copy: mbarrier.arrive.expect_tx.shared::cta.b64 %state, [full], 128;\n"
	"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%in], 128, [full];\n"
	"and.b32 %odd, %i, 1;\n"
	"used: mbarrier.try_wait.parity.shared::cta.b64 %done, [empty], %odd; @!%done bra used;\n"
	"add.u64 %in, %in, 128; add.u32 %i, %i, 1; setp.lt.u32 %more, %i, %n; @%more bra copy; exit;\n"
	"sums: and.b32 %odd, %i, 1;\n"
	"there: mbarrier.try_wait.parity.shared::cta.b64 %done, [full], %odd; @!%done bra there;\n"
	"mov.u32 %at, tile; mad.lo.u32 %at, %t, 4, %at; ld.shared.u32 %v, [%at]; add.u32 %sum, %sum, %v;\n"
	"mbarrier.arrive.shared::cta.b64 %state, [empty];\n"
	"add.u32 %i, %i, 1; setp.lt.u32 %more, %i, %n; @%more bra sums;\n"
	"red.global.add.u32 [%out], %sum; ret;\n"
	"}\n";

int main(void)
{
	enum { TILES = 32, WORDS = 32 * TILES };
	CUmodule module;
	CUfunction f;
	CUdeviceptr in, out;
	unsigned int words[WORDS], sum = 0, want = 0, tiles = TILES;
	void *params[] = { &in, &out, &tiles };
	int major;

	open_context();
	OK(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
	if (major < 9) {
		HOLDS(cuModuleLoadData(&module, image) != CUDA_SUCCESS);
		printf("summed up, if the device is of 9.0 or newer\n");
		return (0);
	}
	OK(cuModuleLoadData(&module, image));
	OK(cuModuleGetFunction(&f, module, "add_tiles"));
	for (unsigned int i = 0; i < WORDS; ++i)
		want += words[i] = i;
	OK(cuMemAlloc(&in, sizeof(words)));
	OK(cuMemAlloc(&out, 4));
	OK(cuMemcpyHtoD(in, words, sizeof(words)));
	OK(cuMemsetD32(out, 0, 1));
	OK(cuLaunchKernel(f, 1, 1, 1, 64, 1, 1, 0, NULL, params, NULL));
	OK(cuMemcpyDtoH(&sum, out, 4));
	HOLDS(sum == want);
	printf("summed up, if the device is of 9.0 or newer\n");
	return (0);
}
