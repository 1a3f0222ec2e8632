// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0
// software: the pages of managed memory move without a call on real devices

// Variables that are declared __managed__, of a module that stays, of modules that come and go, and of a library in two contexts:
// the program and kernels of two devices write them by turns, without a copy.
// devices: 2
// limit: 60s

#include "check.h"

#include <string.h>

enum { N = 3000, STEPS = 600 };

static const char image[] = PTX(
	".visible .global .attribute(.managed) .align 4 .b8 data[12000];\n"
	".visible .global .attribute(.managed) .align 4 .u32 rounds = 17;\n"
	".visible .global .align 4 .u32 own = 1000;\n"
	".visible .entry mix(.param .u32 k)\n"
	"{\n"
	".reg .u32 %i, %t, %b, %d, %v, %k; .reg .u64 %p, %o; .reg .pred %c;\n"
	"mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; mov.u32 %d, %ntid.x; mad.lo.u32 %i, %b, %d, %t;\n"
	"setp.ge.u32 %c, %i, 3000; @%c ret;\n"
	"mul.wide.u32 %o, %i, 4; mov.u64 %p, data; add.u64 %p, %p, %o;\n"
	"ld.param.u32 %k, [k]; ld.global.u32 %v, [%p]; mad.lo.u32 %v, %v, 1664525, %k; ld.global.u32 %k, [rounds]; add.u32 %v, %v, %k;\n"
	"ld.global.u32 %k, [own]; add.u32 %v, %v, %k; st.global.u32 [%p], %v;\n"
	"ret;\n"
	"}\n"
	".visible .entry count() { red.global.add.u32 [rounds], 1; red.global.add.u32 [own], 3; ret; }\n");

static unsigned int hash_words(const unsigned int *p, int n)
{
	unsigned int h = 2166136261u;

	for (int i = 0; i < n; ++i)
		h = (h ^ p[i]) * 16777619u;
	return (h);
}

/* The kernels of a module. */
struct kernels {
	CUfunction mix, count;
};

static struct kernels find_kernels(CUmodule m)
{
	struct kernels k;

	OK(cuModuleGetFunction(&k.mix, m, "mix"));
	OK(cuModuleGetFunction(&k.count, m, "count"));
	return (k);
}

static void run_kernels(struct kernels f, unsigned int k)
{
	void *params[] = { &k };

	OK(cuLaunchKernel(f.mix, (N + 255) / 256, 1, 1, 256, 1, 1, 0, NULL, params, NULL));
	OK(cuLaunchKernel(f.count, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	OK(cuCtxSynchronize());
}

static unsigned int *data_of(CUmodule m, const char *name)
{
	CUdeviceptr at;

	OK(cuModuleGetGlobal(&at, NULL, m, name));
	return ((unsigned int *)at);
}

int main(void)
{
	CUcontext ctx[2];
	CUmodule module, of_library[2], comes = NULL;
	CUlibrary library;
	struct kernels mine, shared[2], passing = { 0 };
	CUdeviceptr at;
	unsigned int *data, *rounds, *common;

	OK(cuInit(0));
	OK(cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
	OK(cuLibraryGetManaged(&at, NULL, library, "data"));
	common = (unsigned int *)at;
	for (int d = 0; d < 2; ++d) {
		OK(cuDevicePrimaryCtxRetain(&ctx[d], d));
		OK(cuCtxSetCurrent(ctx[d]));
		OK(cuLibraryGetModule(&of_library[d], library));
		shared[d] = find_kernels(of_library[d]);
	}
	OK(cuModuleLoadData(&module, image)); /* on the second device */
	mine = find_kernels(module);
	data = data_of(module, "data");
	rounds = data_of(module, "rounds");
	for (unsigned int step = 0; step < STEPS; ++step) {
		const int d = step % 2;
		unsigned int passed = 0;

		OK(cuCtxSetCurrent(ctx[d]));
		for (int i = 0; i < N; i += 7)
			common[i] ^= step;
		run_kernels(shared[d], step);
		OK(cuCtxSetCurrent(ctx[1]));
		data[step] ^= common[step];
		run_kernels(mine, step);
		*rounds ^= 1;
		if (step % 4 == 0) {
			if (comes != NULL)
				OK(cuModuleUnload(comes));
			OK(cuModuleLoadData(&comes, image));
			passing = find_kernels(comes);
			HOLDS(*data_of(comes, "rounds") == 17);
		}
		run_kernels(passing, step);
		passed = hash_words(data_of(comes, "data"), N);
		HOLDS(data == data_of(module, "data"));
		printf("step %u %08x %u common %08x passing %08x\n", step, hash_words(data, N), *rounds, hash_words(common, N), passed);
		fflush(stdout);
	}
	OK(cuModuleUnload(module));
	OK(cuLibraryUnload(library));
	return (0);
}
