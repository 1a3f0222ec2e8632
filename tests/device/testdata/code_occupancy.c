// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// How many blocks fit, and which size of block is best, with a function of the program that returns the shared memory of a block.
// expect: the function was asked

#include "check.h"

#include <string.h>

static const char image[] = PTX(
	".visible .entry plain() { ret; }\n"
	".visible .entry small() .maxntid 96, 1, 1 { ret; }\n"
	".visible .entry shared() { .shared .align 4 .b8 s[16384]; st.shared.u32 [s], 1; ret; }\n");

static int asked;

static size_t shared_size(int block)
{
	HOLDS(block > 0 && block <= 1024);
	++asked;
	return ((size_t)block * 160);
}

int main(void)
{
	CUmodule module;
	CUfunction plain, small, shared;
	int clusters, blocks, grid, block, sms, per, other, total, optin;
	size_t bytes;

	open_context();
	OK(cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
	OK(cuDeviceGetAttribute(&per, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 0));
	OK(cuDeviceGetAttribute(&total, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 0));
	OK(cuDeviceGetAttribute(&optin, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 0));
	OK(cuModuleLoadData(&module, image));
	OK(cuModuleGetFunction(&plain, module, "plain"));
	OK(cuModuleGetFunction(&small, module, "small"));
	OK(cuModuleGetFunction(&shared, module, "shared"));
	OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, plain, 256, 0));
	HOLDS(blocks == per / 256);
	OK(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&other, plain, 256, 0, CU_OCCUPANCY_DEFAULT));
	HOLDS(other == blocks);
	OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, shared, 32, 0));
	HOLDS(blocks == total / (16384 + 1024));
	OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, small, 128, 0));
	HOLDS(is_native() || blocks == 0); /* a driver leaves .maxntid out of account */
	WANT(CUDA_ERROR_INVALID_VALUE, cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, plain, 0, 0));
	WANT(CUDA_ERROR_INVALID_VALUE, cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, plain, 1, 0, 8));
	WANT(CUDA_ERROR_INVALID_HANDLE, cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, NULL, 1, 0));

	OK(cuOccupancyMaxPotentialBlockSize(&grid, &block, plain, NULL, 0, 0));
	HOLDS(block == 1024 && grid == 2 * sms);
	OK(cuOccupancyMaxPotentialBlockSize(&grid, &block, small, NULL, 0, 0));
	HOLDS(block == 64 && grid == per / 64 * sms); /* of 96 only 21 fit: 2016 threads */
	OK(cuOccupancyMaxPotentialBlockSize(&grid, &block, plain, NULL, 0, 100));
	HOLDS(block <= 100 && block % 32 == 0);
	OK(cuOccupancyMaxPotentialBlockSizeWithFlags(&grid, &block, plain, shared_size, 0, 0, CU_OCCUPANCY_DEFAULT));
	HOLDS(block * 160 <= optin && grid % sms == 0 && grid > 0);
	printf("the function was %s\n", asked > 0 ? "asked" : "not asked");

	OK(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, plain, 2, 128));
	OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, plain, 128, bytes));
	HOLDS(blocks >= 2);
	OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, plain, 128, bytes + 256));
	HOLDS(blocks < 2);

	/* Without clusters, a cluster is a block, whether the program says so or says nothing; there are no larger clusters. */
	CUlaunchAttribute cluster = { .id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION };
	CUlaunchConfig launch = { .gridDimX = 8, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 256, .blockDimY = 1, .blockDimZ = 1 };

	OK(cuFuncSetAttribute(plain, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
	OK(cuFuncSetAttribute(plain, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 2));
	OK(cuDeviceGetAttribute(&clusters, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 0));
	OK(cuOccupancyMaxActiveClusters(&blocks, plain, &launch));
	HOLDS(clusters ? blocks > 0 : blocks == per / 256 * sms);
	launch.attrs = &cluster;
	launch.numAttrs = 1;
	for (unsigned size = 1; size <= 2; ++size) {
		const unsigned dimensions[3] = { size, 1, 1 };

		memcpy(&cluster.value, dimensions, sizeof(dimensions));
		OK(cuOccupancyMaxActiveClusters(&blocks, plain, &launch));
		HOLDS(clusters ? blocks > 0 : blocks == (size == 1 ? per / 256 * sms : 0));
		OK(cuOccupancyMaxPotentialClusterSize(&other, plain, &launch));
		HOLDS(clusters ? other >= 8 : other == 1);
		WANT(size == 1 || clusters ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CLUSTER_SIZE, cuLaunchKernelEx(&launch, plain, NULL, NULL));
	}
	OK(cuCtxSynchronize());
	launch.blockDimX = 0;
	WANT(CUDA_ERROR_INVALID_VALUE, cuOccupancyMaxActiveClusters(&blocks, plain, &launch));
	WANT(CUDA_ERROR_INVALID_VALUE, cuOccupancyMaxPotentialClusterSize(NULL, plain, &launch));
	return (0);
}
