// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0
// expect: done
// says: cuGetExportTable: CONTEXT_STREAM[7] is not supported: what this function
// says: cuGetExportTable: 6e6f626f647900000000000000000000 is not supported: what this table
// misses: cuGetExportTable: CONTEXT_STREAM[7]: what this function of the driver does is not published
// misses: cuGetExportTable: DEVICE_GROUPS[16]: what this function of the driver does is not published
// misses: cuGetExportTable: 6f746865720000000000000000000000: what this table of the driver's functions has is not published

/* The first calls of the runtime library: its tables, and values kept with contexts. */
#include "check.h"

#include <stdint.h>
#include <string.h>
#include <time.h>

static const CUuuid interface = { "\x6b\xd5\xfb\x6c\x5b\xf4\xe7\x4a\x89\x87\xd9\x39\x12\xfd\x9d\xf9" };
static const CUuuid hooks = { "\xa0\x94\x79\x8c\x2e\x74\x2e\x74\x93\xf2\x08\x00\x20\x0c\x0a\x66" };
static const CUuuid tls = { "\x42\xd8\x5a\x81\x23\xf6\xcb\x47\x82\x98\xf6\xe7\x8a\x3a\xec\xdc" };
static const CUuuid storage = { "\xc6\x93\x33\x6e\x11\x21\xdf\x11\xa8\xc3\x68\xf3\x55\xd8\x95\x93" };
static const CUuuid checks = { "\x26\x3e\x88\x60\x7c\xd2\x61\x43\x92\xf6\xbb\xd5\x00\x6d\xfa\x7e" };
static const CUuuid integrity = { "\xd4\x08\x20\x55\xbd\xe6\x70\x4b\x8d\x34\xba\x12\x3c\x66\xe1\xf2" };

static const CUuuid streams = { "\x21\x31\x8c\x60\x97\x14\x32\x48\x8c\xa6\x41\xff\x73\x24\xc8\xf2" };

static const CUuuid groups = { "\x17\x34\xdc\x26\x80\x0d\x47\x45\x87\x26\xc0\xf1\xe7\xdd\x8b\xca" };

static const CUuuid modules = { "\x6e\x16\x3f\xbe\xb9\x58\x44\x4d\x83\x5c\xe1\x82\xaf\xf1\x99\x1e" };

static void *const *get_table(const CUuuid *id, size_t n)
{
	const void *t = NULL;

	OK(cuGetExportTable(&t, id));
	HOLDS(t != NULL && (n == 0 || (size_t)*(void *const *)t == n * 8));
	return (t);
}

static int told;
static CUcontext told_of;

static void note_end(CUcontext ctx, void *key, void *value)
{
	told += *(int *)value;
	told_of = ctx;
	*(int *)key += 1;
}

static void check_kept(CUcontext primary)
{
	void *const *t = get_table(&storage, 0);
	CUresult (*put)(CUcontext, void *, void *, void (*)(CUcontext, void *, void *)) = (void *)t[0];
	CUresult (*drop)(CUcontext, void *) = (void *)t[1];
	CUresult (*get)(void **, CUcontext, void *) = (void *)t[2];
	int keys[100] = { 0 }, ten = 10, seven = 7;
	CUcontext other;
	void *value;

	WANT(CUDA_ERROR_INVALID_HANDLE, get(&value, primary, &keys[0]));
	OK(put(primary, &keys[0], &ten, note_end));
	OK(get(&value, NULL, &keys[0]));
	HOLDS(value == &ten);
	OK(put(NULL, &keys[0], &seven, note_end));
	OK(get(&value, primary, &keys[0]));
	HOLDS(value == &seven);
	OK(drop(primary, &keys[0]));
	WANT(CUDA_ERROR_INVALID_HANDLE, get(&value, primary, &keys[0]));
	OK(cuCtxCreate(&other, 0, 0));
	for (int i = 0; i < 100; ++i)
		OK(put(other, &keys[i], &ten, note_end));
	WANT(CUDA_ERROR_INVALID_HANDLE, get(&value, primary, &keys[5]));
	OK(cuCtxDestroy(other));
	HOLDS(told == 1000 && told_of == other && keys[0] == 1 && keys[99] == 1);
	WANT(CUDA_ERROR_INVALID_CONTEXT, put((CUcontext)(uintptr_t)5, &keys[0], &ten, NULL));
	told = 0;
	OK(put(primary, &keys[0], &seven, note_end));
	OK(cuDevicePrimaryCtxReset(0));
	HOLDS(told == 7 && told_of == primary);
}

/* The requests of cuBLAS before its first product. */
static void check_libraries(CUcontext ctx)
{
	CUresult (*current)(CUcontext *) = (void *)get_table(&tls, 4)[2];
	void *const *t = get_table(&streams, 93);
	CUresult (*number)(CUcontext, uint64_t *) = (void *)t[4], (*other)(void) = (void *)t[7];
	CUresult (*of_stream)(CUcontext, const void *, uint64_t *) = (void *)t[39];
	CUresult (*behind)(CUcontext, CUstream, void **, int) = (void *)t[51];
	CUcontext is = NULL;
	CUstream s;
	uint64_t a, b;
	void *p;

	OK(current(&is));
	HOLDS(is == ctx);
	WANT(CUDA_ERROR_INVALID_VALUE, current(NULL));
	OK(number(ctx, &a));
	OK(number(NULL, &b));
	HOLDS(a == b && a != 0);
	WANT(CUDA_ERROR_INVALID_CONTEXT, number((CUcontext)(uintptr_t)5, &a));
	OK(cuStreamCreate(&s, 0));
	OK(behind(ctx, s, &p, 0));
	OK(of_stream(ctx, p, &a));
	OK(behind(ctx, NULL, &p, 0));
	OK(of_stream(ctx, p, &b));
	HOLDS(a != b && p != NULL);
	OK(cuStreamDestroy(s));
	for (int i = 0; i < 2; ++i) /* is named once */
		WANT(CUDA_ERROR_NOT_SUPPORTED, other());
	other = (void *)get_table(&groups, 17)[16];
	WANT(CUDA_ERROR_NOT_SUPPORTED, other());
}

static CUfunction seen[3];
static int many;

static void note_function(void *to, CUfunction f, CUmodule owner)
{
	HOLDS(to == seen && owner != NULL && many < 3);
	seen[many++] = f;
}

/* The requests of cuFFT when it makes a plan. */
static void check_functions(CUcontext ctx)
{
	uint64_t (*each)(CUcontext, CUmodule, void (*)(void *, CUfunction, CUmodule), void *) = (void *)get_table(&modules, 64)[7];
	CUmodule m;
	CUfunction one, two;

	OK(cuModuleLoadData(&m, ".version 6.0 .target sm_50 .address_size 64\n"
				".visible .entry one() { ret; }\n.visible .entry two() { ret; }\n"));
	OK(cuModuleGetFunction(&one, m, "one"));
	OK(cuModuleGetFunction(&two, m, "two"));
	HOLDS(each(ctx, m, note_function, seen) == 2 && many == 2);
	HOLDS((seen[0] == one && seen[1] == two) || (seen[0] == two && seen[1] == one));
	OK(cuModuleUnload(m));
	HOLDS(each(ctx, m, note_function, seen) == 0 && many == 2);
}

int main(void)
{
	CUresult (*of_device)(CUcontext *, CUdevice), (*check)(CUcontext, unsigned int *, void **), (*code)(unsigned int, uint64_t, uint64_t *);
	CUcontext ctx, before;
	uint64_t a[2], b[2];
	unsigned int wrong = 1;
	CUuuid nobody = { "nobody" }, other = { "other" };
	const void *none;
	void *p;

	WANT(CUDA_ERROR_INVALID_VALUE, cuGetExportTable(&none, &nobody));
	WANT(CUDA_ERROR_INVALID_VALUE, cuGetExportTable(NULL, &interface));
	of_device = (void *)get_table(&interface, 10)[2];
	WANT(CUDA_ERROR_NOT_INITIALIZED, of_device(&before, 0));
	OK(cuInit(0));
	OK(of_device(&before, 0));
	WANT(CUDA_ERROR_INVALID_DEVICE, of_device(&ctx, 99));
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	HOLDS(ctx == before);
	OK(cuCtxSetCurrent(ctx));
	check_libraries(ctx);
	for (int i = 0; i < 2; ++i)
		WANT(CUDA_ERROR_INVALID_VALUE, cuGetExportTable(&none, &other));
	check_functions(ctx);
	for (int i = 2; i < 7; i += 4) {
		void (*get)(void **, size_t *) = (void *)get_table(&hooks, 7)[i];
		size_t n = 0;

		get(&p, &n);
		HOLDS(p != NULL && n > 0);
	}
	check = (void *)get_table(&checks, 4)[2];
	OK(check(ctx, &wrong, &p));
	HOLDS(wrong == 0);
	code = (void *)get_table(&integrity, 3)[1];
	OK(code(12042, 1700000000, a));
	OK(code(12042, 1700000000, b));
	HOLDS(memcmp(a, b, sizeof(a)) == 0);
	OK(code(12042, 1700000001, b));
	HOLDS(memcmp(a, b, sizeof(a)) != 0);
	check_kept(ctx);
	/* The same context comes back. */
	WANT(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuCtxSynchronize());
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	HOLDS(ctx == before);
	OK(cuCtxSynchronize());
	OK(cuDevicePrimaryCtxRelease(0));
	OK(cuDevicePrimaryCtxRelease(0));
	WANT(CUDA_ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease(0));
	printf("done\n");
	return (0);
}
