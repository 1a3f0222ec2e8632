// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// A product of matrices by tiles in shared memory, held against the host's.
// expect: 12288 elements are right

#include "check.h"

#include <math.h>

enum { M = 96, N = 128, K = 80, TILE = 16 };

static const char image[] = PTX(
	".visible .entry sgemm(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 m, .param .u32 n, .param .u32 k)\n"
	".maxntid 16, 16, 1\n"
	"{\n"
	".shared .align 4 .f32 ta[256]; .shared .align 4 .f32 tb[256];\n"
	".reg .u32 %x, %y, %row, %col, %n, %k, %k0, %i, %j, %s, %sa, %sb, %pa, %pb, %t; .reg .u64 %a, %b, %c, %o, %p;\n"
	".reg .f32 %sum, %u, %v; .reg .pred %q;\n"
	"ld.param.u64 %a, [a]; ld.param.u64 %b, [b]; ld.param.u64 %c, [c]; ld.param.u32 %n, [n]; ld.param.u32 %k, [k];\n"
	"mov.u32 %x, %tid.x; mov.u32 %y, %tid.y;\n"
	"mov.u32 %t, %ctaid.y; mad.lo.u32 %row, %t, 16, %y; mov.u32 %t, %ctaid.x; mad.lo.u32 %col, %t, 16, %x;\n"
	"mad.lo.u32 %s, %y, 16, %x; shl.b32 %s, %s, 2; mov.u32 %sa, ta; mov.u32 %sb, tb;\n"
	"mov.f32 %sum, 0f00000000; mov.u32 %k0, 0;\n"
	"tiles:\n"
	"add.u32 %j, %k0, %x; mad.lo.u32 %i, %row, %k, %j; mul.wide.u32 %o, %i, 4; add.u64 %p, %a, %o; ld.global.f32 %u, [%p];\n"
	"add.u32 %t, %sa, %s; st.shared.f32 [%t], %u;\n"
	"add.u32 %j, %k0, %y; mad.lo.u32 %i, %j, %n, %col; mul.wide.u32 %o, %i, 4; add.u64 %p, %b, %o; ld.global.f32 %u, [%p];\n"
	"add.u32 %t, %sb, %s; st.shared.f32 [%t], %u;\n"
	"bar.sync 0;\n"
	"shl.b32 %t, %y, 6; add.u32 %pa, %sa, %t; shl.b32 %t, %x, 2; add.u32 %pb, %sb, %t; mov.u32 %j, 0;\n"
	"inner:\n"
	"ld.shared.f32 %u, [%pa]; ld.shared.f32 %v, [%pb]; fma.rn.f32 %sum, %u, %v, %sum;\n"
	"add.u32 %pa, %pa, 4; add.u32 %pb, %pb, 64; add.u32 %j, %j, 1; setp.lt.u32 %q, %j, 16; @%q bra inner;\n"
	"bar.sync 0;\n"
	"add.u32 %k0, %k0, 16; setp.lt.u32 %q, %k0, %k; @%q bra tiles;\n"
	"mad.lo.u32 %i, %row, %n, %col; mul.wide.u32 %o, %i, 4; add.u64 %p, %c, %o; st.global.f32 [%p], %sum;\n"
	"ret;\n"
	"}\n");

static float a[M][K], b[K][N], c[M][N];

int main(void)
{
	CUmodule module;
	CUfunction sgemm;
	CUdeviceptr da, db, dc;
	unsigned int m = M, n = N, k = K, right = 0;
	void *params[] = { &da, &db, &dc, &m, &n, &k };
	int most;

	open_context();
	for (int i = 0; i < M; ++i)
		for (int j = 0; j < K; ++j)
			a[i][j] = (float)((i * 7 + j * 3) % 11 - 5) / 3;
	for (int i = 0; i < K; ++i)
		for (int j = 0; j < N; ++j)
			b[i][j] = (float)((i * 5 + j) % 13 - 6) / 7;
	OK(cuModuleLoadData(&module, image));
	OK(cuModuleGetFunction(&sgemm, module, "sgemm"));
	OK(cuFuncGetAttribute(&most, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, sgemm));
	HOLDS(most == 256);
	OK(cuMemAlloc(&da, sizeof(a)));
	OK(cuMemAlloc(&db, sizeof(b)));
	OK(cuMemAlloc(&dc, sizeof(c)));
	OK(cuMemcpyHtoD(da, a, sizeof(a)));
	OK(cuMemcpyHtoD(db, b, sizeof(b)));
	OK(cuLaunchKernel(sgemm, N / TILE, M / TILE, 1, TILE, TILE, 1, 0, NULL, params, NULL));
	OK(cuMemcpyDtoH(c, dc, sizeof(c)));
	for (int i = 0; i < M; ++i) {
		for (int j = 0; j < N; ++j) {
			float sum = 0;

			/* In the same order, with a single rounding each. */
			for (int l = 0; l < K; ++l)
				sum = fmaf(a[i][l], b[l][j], sum);
			right += c[i][j] == sum;
		}
	}
	printf("%u elements are right\n", right);
	return (0);
}
