// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * Launches, with a server that is written here. Exits with the line that is wrong, modulo 250, plus 1.
 */
#include "context.h"
#include "device.h"
#include "function.h"
#include "stream.h"
#include "transport.h"

#include <string.h>

static int missed;

void sing_missed(const char *symbol, const char *why)
{
	missed += symbol[0] != 0 && why[0] != 0;
}

#define HOLDS(condition)                             \
	do {                                         \
		if (!(condition))                    \
			return (__LINE__ % 250 + 1); \
	} while (0)

_Thread_local struct sing_context *sing_current __attribute__((tls_model("initial-exec"), visibility("hidden")));

/*
 * The functions of the server: 10 (two parameters), 11 (none), 12 (many), 13 (an exact block); 20 is a kernel, of which
 * 10 is the function.
 */
enum { MANY = 1100 };
static sing_facts facts = {
	.threads = 512,
	.shared = 49152,
	.anyThreads = 1024,
	.block = { 1024, 1024, 64 },
	.grid = { 2147483647, 65535, 65535 },
	.multiprocessors = 10,
	.perMultiprocessor = 2048,
	.warp = 32,
	.byRegisters = 768,
};
static int asked, kernels, occupied, gone;

/* Whether the device has clusters. */
static int clusters;

int sing_device_attribute(int dev, int attribute, int *value)
{
	*value = attribute == CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH && dev == sing_current->device && clusters;
	return (CUDA_SUCCESS);
}

CUresult sing_send_function_facts(uint32_t per_thread, CUfunction function, sing_facts *f, unsigned int *offsets, unsigned int *sizes,
				  unsigned int *n)
{
	const uintptr_t h = (uintptr_t)function;
	const unsigned int room = *n;

	(void)per_thread;
	++asked;
	if (h < 10 || h > 13 || gone)
		return (CUDA_ERROR_INVALID_HANDLE);
	*f = facts;
	f->context = (CUcontext)77;
	*n = 0;
	if (h == 10) {
		offsets[0] = 0;
		sizes[0] = 4;
		offsets[1] = 8;
		sizes[1] = 11;
		f->bytes = 19;
		*n = 2;
	} else if (h == 12) {
		*n = MANY;
		f->bytes = 8 * MANY;
		for (unsigned int i = 0; i < MANY && i < room; ++i) {
			offsets[i] = 8 * i;
			sizes[i] = 8;
		}
	} else if (h == 13) {
		memcpy(f->required, (unsigned int[3]){ 64, 2, 1 }, sizeof(f->required));
	}
	return (CUDA_SUCCESS);
}

CUresult sing_send_cuKernelGetFunction(uint32_t per_thread, CUfunction *function, CUkernel kernel)
{
	(void)per_thread;
	++kernels;
	if ((uintptr_t)kernel != 20)
		return (CUDA_ERROR_INVALID_HANDLE);
	*function = (CUfunction)10;
	return (CUDA_SUCCESS);
}

CUresult sing_send_cuOccupancyMaxActiveBlocksPerMultiprocessor(uint32_t per_thread, int *blocks, CUfunction function, int size, size_t shared)
{
	(void)per_thread;
	(void)function;
	++occupied;
	*blocks = shared > 0 ? 1 : 2048 / size;
	return (CUDA_SUCCESS);
}

bool sing_stream_serves(uint64_t handle, uint64_t context)
{
	return (handle <= 2 || (handle == 9 && context == 77));
}

static struct {
	int n, ex;
	uintptr_t function, stream;
	unsigned int grid[3], block[3], shared, bytes, attributes;
	unsigned char params[8 * MANY];
} sent;

static CUresult take_launch(CUfunction function, const unsigned int *shape, CUstream stream, const void *params, unsigned int n)
{
	++sent.n;
	sent.function = (uintptr_t)function;
	sent.stream = (uintptr_t)stream;
	memcpy(sent.grid, shape, sizeof(sent.grid));
	memcpy(sent.block, shape + 3, sizeof(sent.block));
	sent.shared = shape[6];
	sent.bytes = n;
	memcpy(sent.params, params, n);
	return (CUDA_SUCCESS);
}

CUresult sing_send_launch(uint32_t per_thread, CUfunction function, unsigned int gridX, unsigned int gridY, unsigned int gridZ,
			  unsigned int blockX, unsigned int blockY, unsigned int blockZ, unsigned int shared, CUstream stream,
			  const void *params, unsigned int n)
{
	const unsigned int shape[] = { gridX, gridY, gridZ, blockX, blockY, blockZ, shared };

	(void)per_thread;
	sent.ex = 0;
	return (take_launch(function, shape, stream, params, n));
}

CUresult sing_send_launch_ex(uint32_t per_thread, CUfunction function, unsigned int gridX, unsigned int gridY, unsigned int gridZ,
			     unsigned int blockX, unsigned int blockY, unsigned int blockZ, unsigned int shared, CUstream stream,
			     const void *params, unsigned int n, const CUlaunchAttribute *attributes, unsigned int k)
{
	const unsigned int shape[] = { gridX, gridY, gridZ, blockX, blockY, blockZ, shared };

	(void)per_thread;
	sent.ex = 1;
	sent.attributes = k;
	HOLDS(attributes != NULL);
	return (take_launch(function, shape, stream, params, n));
}

/* Leave something on the stack that a block of parameters must not show. */
__attribute__((noinline)) static void soil_stack(void)
{
	char some[20000];

	memset(some, 0xee, sizeof(some));
	__asm__ volatile("" : : "r"(some) : "memory");
}

struct config {
	unsigned int grid[3], block[3], shared;
	CUstream stream;
	CUlaunchAttribute *attributes;
	unsigned int n;
};

static CUresult launch_with(int id, uint64_t word, uint64_t more, void **params)
{
	CUlaunchAttribute a = { .id = id, .value = { { word, more } } };
	struct config c = { { 1, 1, 1 }, { 32, 1, 1 }, 0, NULL, &a, 1 };

	return (sing_cuLaunchKernelEx(&c, (CUfunction)10, params, NULL));
}

int main(void)
{
	static const struct {
		unsigned int shape[7];
		int want;
	} shapes[] = {
		{ { 1, 1, 1, 1, 1, 1, 0 }, CUDA_SUCCESS },
		{ { 2147483647, 65535, 65535, 512, 1, 1, 49152 }, CUDA_SUCCESS },
		{ { 0, 1, 1, 1, 1, 1, 0 }, CUDA_ERROR_INVALID_VALUE },
		{ { 1, 0, 1, 1, 1, 1, 0 }, CUDA_ERROR_INVALID_VALUE },
		{ { 1, 1, 0, 1, 1, 1, 0 }, CUDA_ERROR_INVALID_VALUE },
		{ { 2147483648u, 1, 1, 1, 1, 1, 0 }, CUDA_ERROR_INVALID_VALUE },
		{ { 1, 65536, 1, 1, 1, 1, 0 }, CUDA_ERROR_INVALID_VALUE },
		{ { 1, 1, 0xffffffff, 1, 1, 1, 0 }, CUDA_ERROR_INVALID_VALUE },
		{ { 1, 1, 1, 0, 1, 1, 0 }, CUDA_ERROR_INVALID_VALUE },
		{ { 1, 1, 1, 1025, 1, 1, 0 }, CUDA_ERROR_INVALID_VALUE },
		{ { 1, 1, 1, 1, 1, 65, 0 }, CUDA_ERROR_INVALID_VALUE },
		{ { 1, 1, 1, 1024, 1024, 64, 0 }, CUDA_ERROR_INVALID_VALUE },
		{ { 1, 1, 1, 33, 32, 1, 0 }, CUDA_ERROR_INVALID_VALUE },
		{ { 1, 1, 1, 32, 32, 1, 0 }, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES },
		{ { 1, 1, 1, 513, 1, 1, 0 }, CUDA_ERROR_INVALID_VALUE },
		{ { 1, 1, 1, 768, 1, 1, 0 }, CUDA_ERROR_INVALID_VALUE },
		{ { 1, 1, 1, 769, 1, 1, 0 }, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES },
		{ { 1, 1, 1, 1, 1, 1, 49153 }, CUDA_ERROR_INVALID_VALUE },
		{ { 1, 1, 1, 1, 1, 1, 0xffffffff }, CUDA_ERROR_INVALID_VALUE },
	};
	struct sing_context context = { .handle = 77, .alive = true }, other = { .handle = 78, .alive = true };
	uint64_t many[MANY];
	void *pointers[MANY], *params[2];
	uint32_t first = 0x11223344;
	char second[11] = "0123456789";

	params[0] = &first;
	params[1] = second;
	sing_current = &context;

	/* The block of parameters, with zeros in the gaps. A kernel is launched as its function. */
	for (int i = 0; i < 2; ++i) {
		memset(&sent, 0xee, sizeof(sent));
		sent.n = 0;
		soil_stack();
		HOLDS(sing_cuLaunchKernel((CUfunction)(i == 0 ? 10ul : 20ul), 1, 2, 3, 4, 5, 6, 7, (CUstream)9, params, NULL) == CUDA_SUCCESS);
		HOLDS(sent.n == 1 && !sent.ex && sent.function == 10 && sent.stream == 9 && sent.shared == 7 && sent.bytes == 19);
		HOLDS(sent.grid[2] == 3 && sent.block[0] == 4);
		HOLDS(memcmp(sent.params, "\x44\x33\x22\x11\0\0\0\0" "0123456789\0", 19) == 0);
	}
	HOLDS(asked == 2 && kernels == 1);
	/* The server is not asked again. Only the default stream is the thread's. */
	HOLDS(sing_cuLaunchKernel_ptsz((CUfunction)20, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL) == CUDA_SUCCESS && sent.stream == 2);
	HOLDS(sing_cuLaunchKernel_ptsz((CUfunction)10, 1, 1, 1, 1, 1, 1, 0, (CUstream)1, params, NULL) == CUDA_SUCCESS && sent.stream == 1);
	HOLDS(sing_cuLaunchKernel((CUfunction)10, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL) == CUDA_SUCCESS && sent.stream == 0);
	HOLDS(asked == 2 && kernels == 1);

	for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); ++i) {
		const unsigned int *s = shapes[i].shape;

		sent.n = 0;
		HOLDS(sing_cuLaunchKernel((CUfunction)10, s[0], s[1], s[2], s[3], s[4], s[5], s[6], NULL, params, NULL) == shapes[i].want);
		HOLDS(sent.n == (shapes[i].want == CUDA_SUCCESS));
	}
	HOLDS(sing_cuLaunchKernel((CUfunction)13, 1, 1, 1, 64, 2, 1, 0, NULL, NULL, NULL) == CUDA_SUCCESS);
	HOLDS(sing_cuLaunchKernel((CUfunction)13, 1, 1, 1, 128, 1, 1, 0, NULL, NULL, NULL) == CUDA_ERROR_INVALID_VALUE);

	/* The parameters in the other form, as a block. */
	{
		unsigned char block[24] = "abcdefghijklmnopqrstuvw";
		size_t n = sizeof(block), small = 18;
		void *extra[] = { (void *)1, block, (void *)2, &n, NULL };
		void *reverse[] = { (void *)2, &n, (void *)1, block, NULL };
		void *tight[] = { (void *)1, block, (void *)2, &small, NULL };
		void *unsized[] = { (void *)1, block, NULL }, *odd[] = { (void *)3, block, NULL }, *empty[] = { NULL };
		CUfunction f = (CUfunction)10;

		HOLDS(sing_cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra) == CUDA_SUCCESS);
		HOLDS(sent.bytes == 19 && memcmp(sent.params, block, 19) == 0);
		HOLDS(sing_cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, reverse) == CUDA_SUCCESS);
		HOLDS(sing_cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, tight) == CUDA_ERROR_INVALID_VALUE);
		HOLDS(sing_cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, unsized) == CUDA_ERROR_INVALID_VALUE);
		HOLDS(sing_cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, odd) == CUDA_ERROR_INVALID_VALUE);
		HOLDS(sing_cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, empty) == CUDA_ERROR_INVALID_VALUE);
		HOLDS(sing_cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, extra) == CUDA_ERROR_INVALID_VALUE);
		HOLDS(sing_cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) == CUDA_ERROR_INVALID_VALUE);
		HOLDS(sing_cuLaunchKernel((CUfunction)11, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, empty) == CUDA_SUCCESS);
		HOLDS(sing_cuLaunchKernel((CUfunction)11, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) == CUDA_SUCCESS);
		params[1] = NULL;
		HOLDS(sing_cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL) == CUDA_ERROR_INVALID_VALUE);
		params[1] = second;
	}
	/* More parameters than the first request has room for, and a block too long for the stack. */
	for (unsigned int i = 0; i < MANY; ++i) {
		many[i] = i;
		pointers[i] = &many[i];
	}
	HOLDS(sing_cuLaunchKernel((CUfunction)12, 1, 1, 1, 1, 1, 1, 0, NULL, pointers, NULL) == CUDA_SUCCESS);
	HOLDS(sent.bytes == sizeof(many) && memcmp(sent.params, many, sizeof(many)) == 0);

	/* Attributes. */
	HOLDS(launch_with(2, 1, 0, params) == CUDA_SUCCESS && sent.ex && sent.attributes == 1);
	HOLDS(launch_with(6, 1, 0, params) == CUDA_SUCCESS && sent.ex);
	HOLDS(launch_with(4, 1ull << 32 | 1, 1, params) == CUDA_SUCCESS);
	HOLDS(launch_with(4, 1ull << 32 | 2, 1, params) == CUDA_ERROR_INVALID_CLUSTER_SIZE);
	clusters = 1;
	HOLDS(launch_with(4, 1ull << 32 | 2, 1, params) == CUDA_ERROR_INVALID_CLUSTER_SIZE); /* the grid has a single block */
	HOLDS(launch_with(4, 1ull << 32 | 32, 1, params) == CUDA_ERROR_INVALID_CLUSTER_SIZE);
	clusters = 0;
	for (int i = 0; i < 2; ++i)
		HOLDS(launch_with(7, 1, 0, params) == CUDA_ERROR_NOT_SUPPORTED && missed == 1);
	HOLDS(launch_with(99, 1, 0, params) == CUDA_ERROR_INVALID_VALUE);
	HOLDS(launch_with(-1, 1, 0, params) == CUDA_ERROR_INVALID_VALUE);
	{
		struct config c = { { 1, 1, 1 }, { 1, 1, 1 }, 0, NULL, NULL, 1 };

		HOLDS(sing_cuLaunchKernelEx(&c, (CUfunction)10, params, NULL) == CUDA_ERROR_INVALID_VALUE);
		HOLDS(sing_cuLaunchKernelEx(NULL, (CUfunction)10, params, NULL) == CUDA_ERROR_INVALID_VALUE);
		c.n = 0;
		HOLDS(sing_cuLaunchKernelEx_ptsz(&c, (CUfunction)10, params, NULL) == CUDA_SUCCESS && !sent.ex && sent.stream == 2);
	}
	/* Cooperative blocks fit together: 2048 / 64 on each of 10. The answer is asked for once for each shape. */
	occupied = 0;
	HOLDS(sing_cuLaunchCooperativeKernel((CUfunction)10, 16, 20, 1, 64, 1, 1, 0, NULL, params) == CUDA_SUCCESS && sent.ex);
	HOLDS(sing_cuLaunchCooperativeKernel((CUfunction)10, 321, 1, 1, 64, 1, 1, 0, NULL, params) == CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
	HOLDS(sing_cuLaunchCooperativeKernel((CUfunction)10, 65536, 65535, 65535, 64, 1, 1, 0, NULL, params) ==
	      CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
	HOLDS(occupied == 1);
	HOLDS(sing_cuLaunchCooperativeKernel((CUfunction)10, 11, 1, 1, 64, 1, 1, 8, NULL, params) == CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
	HOLDS(sing_cuLaunchCooperativeKernel_ptsz((CUfunction)10, 10, 1, 1, 64, 1, 1, 8, NULL, params) == CUDA_SUCCESS && sent.stream == 2);
	HOLDS(occupied == 2);

	/*
	 * A function may have more shared memory from now on, by any of its handles; so may a
	 * kernel.
	 */
	sing_function_shares((CUfunction)20, 60000);
	HOLDS(sing_cuLaunchKernel((CUfunction)10, 1, 1, 1, 1, 1, 1, 60000, NULL, params, NULL) == CUDA_SUCCESS);
	HOLDS(sing_cuLaunchKernel((CUfunction)20, 1, 1, 1, 1, 1, 1, 60000, NULL, params, NULL) == CUDA_SUCCESS);
	sing_function_shares((CUfunction)10, 100000);
	HOLDS(sing_cuLaunchKernel((CUfunction)10, 1, 1, 1, 1, 1, 1, 100000, NULL, params, NULL) == CUDA_SUCCESS);
	HOLDS(sing_cuLaunchKernel((CUfunction)20, 1, 1, 1, 1, 1, 1, 100000, NULL, params, NULL) == CUDA_SUCCESS);
	HOLDS(sing_cuLaunchKernel((CUfunction)10, 1, 1, 1, 1, 1, 1, 100001, NULL, params, NULL) == CUDA_ERROR_INVALID_VALUE);

	HOLDS(sing_cuLaunchKernel((CUfunction)10, 1, 1, 1, 1, 1, 1, 0, (CUstream)10, params, NULL) == CUDA_ERROR_INVALID_HANDLE);

	/* Handles that are unknown, of another context, without a context, gone. */
	HOLDS(sing_cuLaunchKernel((CUfunction)14, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) == CUDA_ERROR_INVALID_HANDLE);
	sing_current = &other;
	HOLDS(sing_cuLaunchKernel((CUfunction)10, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL) == CUDA_ERROR_INVALID_HANDLE);
	sing_current = NULL;
	HOLDS(sing_cuLaunchKernel((CUfunction)10, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL) == CUDA_ERROR_INVALID_CONTEXT);
	sing_current = &context;
	asked = 0;
	sing_functions_doubt();
	HOLDS(sing_cuLaunchKernel((CUfunction)10, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL) == CUDA_SUCCESS && asked == 1);
	HOLDS(sing_cuLaunchKernel((CUfunction)10, 1, 1, 1, 1, 1, 1, 49153, NULL, params, NULL) == CUDA_ERROR_INVALID_VALUE && asked == 1);
	gone = 1;
	HOLDS(sing_cuLaunchKernel((CUfunction)10, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL) == CUDA_SUCCESS && asked == 1);
	sing_functions_doubt();
	HOLDS(sing_cuLaunchKernel((CUfunction)10, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL) == CUDA_ERROR_INVALID_HANDLE);

	return (0);
}
