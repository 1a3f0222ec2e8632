// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#include "probe.h"

static const char image[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry store(.param .u64 p, .param .u32 v)\n"
	"{ .reg .u64 %a; .reg .u32 %v; ld.param.u64 %a, [p]; ld.param.u32 %v, [v]; st.global.u32 [%a], %v; ret; }\n"
	".visible .entry copy(.param .u64 from, .param .u64 to)\n"
	"{ .reg .u64 %a, %b; .reg .u32 %v; ld.param.u64 %a, [from]; ld.param.u64 %b, [to];\n"
	"ld.global.u32 %v, [%a]; st.global.u32 [%b], %v; ret; }\n"
	/* Each round depends on the round before, and the result is stored: the compiler cannot leave out a round. */
	".visible .entry spin(.param .u64 n, .param .u64 p)\n"
	"{ .reg .u64 %n, %i, %a; .reg .u32 %x; .reg .pred %q; ld.param.u64 %n, [n]; ld.param.u64 %a, [p];\n"
	"mov.u64 %i, 0; mov.u32 %x, 1;\n"
	"again: mad.lo.u32 %x, %x, 1664525, 1013904223; add.u64 %i, %i, 1; setp.lt.u64 %q, %i, %n; @%q bra again;\n"
	"st.global.u32 [%a], %x; ret; }\n"
	/*
	 * A sum of products of words with keys that depend on their place, twice with other keys, added up over all threads:
	 * 128 bits that do not depend on the order. Only the speed matters here.
	 */
	".visible .entry hash(.param .u64 p, .param .u64 pieces, .param .u64 out)\n"
	"{ .reg .u64 %p, %n, %i, %s, %a, %o, %h, %g, %m; .reg .u32 %t, %b, %d, %e, %w<4>, %k, %l; .reg .pred %q;\n"
	"ld.param.u64 %p, [p]; ld.param.u64 %n, [pieces]; ld.param.u64 %o, [out];\n"
	"mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; mov.u32 %d, %ntid.x; mov.u32 %e, %nctaid.x;\n"
	"mad.lo.u32 %t, %b, %d, %t; cvt.u64.u32 %i, %t; mul.wide.u32 %s, %d, %e; mov.u64 %h, 0; mov.u64 %g, 0;\n"
	"next: setp.ge.u64 %q, %i, %n; @%q bra done;\n"
	"shl.b64 %a, %i, 4; add.u64 %a, %p, %a; ld.global.v4.u32 {%w0, %w1, %w2, %w3}, [%a];\n"
	"cvt.u32.u64 %k, %i; mul.lo.u32 %k, %k, 0x9e3779b1; xor.b32 %l, %k, 0x85ebca6b;\n"
	"add.u32 %k, %k, %w0; add.u32 %l, %l, %w1; mul.wide.u32 %m, %k, %l; add.u64 %h, %h, %m;\n"
	"add.u32 %k, %k, %w2; add.u32 %l, %l, %w3; mul.wide.u32 %m, %k, %l; add.u64 %g, %g, %m;\n"
	"add.u64 %i, %i, %s; bra next;\n"
	"done: red.global.add.u64 [%o], %h; red.global.add.u64 [%o+8], %g; ret; }\n";

static CUmodule kernels;

CUcontext begin(void)
{
	CUcontext c;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&c, 0));
	OK(cuCtxSetCurrent(c));
	return (c);
}

CUmodule load_kernels(void)
{
	CUmodule m;

	OK(cuModuleLoadData(&m, image));
	return (m);
}

CUfunction kernel(const char *name)
{
	CUfunction f;

	if (kernels == NULL)
		kernels = load_kernels();
	OK(cuModuleGetFunction(&f, kernels, name));
	return (f);
}

CUresult store_word(CUfunction store, CUdeviceptr at, unsigned int value, CUstream s)
{
	void *params[] = { &at, &value };
	const CUresult r = cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, s, params, NULL);

	return (r == CUDA_SUCCESS ? cuStreamSynchronize(s) : r);
}

CUresult copy_word(CUfunction copy, CUdeviceptr from, CUdeviceptr to, CUstream s)
{
	void *params[] = { &from, &to };
	const CUresult r = cuLaunchKernel(copy, 1, 1, 1, 1, 1, 1, 0, s, params, NULL);

	return (r == CUDA_SUCCESS ? cuStreamSynchronize(s) : r);
}

CUmemGenericAllocationHandle new_memory(size_t n)
{
	CUmemAllocationProp prop = { 0 };
	CUmemGenericAllocationHandle h;

	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	OK(cuMemCreate(&h, n, &prop, 0));
	return (h);
}

CUdeviceptr new_addresses(size_t n)
{
	CUdeviceptr p;

	OK(cuMemAddressReserve(&p, n, 0, 0, 0));
	return (p);
}

void map_memory(CUdeviceptr at, size_t n, CUmemGenericAllocationHandle h)
{
	OK(cuMemMap(at, n, 0, h, 0));
}

CUresult allow(CUdeviceptr at, size_t n, int flags)
{
	CUmemAccessDesc d = { 0 };

	d.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	d.flags = (CUmemAccess_flags)flags;
	return (cuMemSetAccess(at, n, &d, 1));
}

size_t at_most(size_t wanted)
{
	size_t left, all;

	OK(cuMemGetInfo(&left, &all));
	while (wanted > left / 2 && wanted > 2u << 20)
		wanted /= 2;
	return (wanted);
}
