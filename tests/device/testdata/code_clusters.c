// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0
// expect: in clusters of 1: 16
// expect: in clusters of 2: as the device has it
// expect: tensor map: as the device has it

/* Launches in clusters, and a tensor map, on devices that have these, and on devices that do not. */
#include "check.h"

#include <string.h>

static const char image[] = PTX(
	".visible .entry count(.param .u64 p)\n"
	"{ .reg .u64 %p; .reg .u32 %v; ld.param.u64 %p, [p]; atom.global.add.u32 %v, [%p], 1; ret; }\n");

static unsigned int launch_clusters(CUfunction f, unsigned int blocks, CUdeviceptr p, CUresult want)
{
	void *params[] = { &p };
	CUlaunchAttribute cluster = { .id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION };
	CUlaunchConfig config = { .gridDimX = 8, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 2, .blockDimY = 1, .blockDimZ = 1, .attrs = &cluster, .numAttrs = 1 };
	unsigned int n = 0;
	int most = -1;

	cluster.value.clusterDim.x = blocks;
	cluster.value.clusterDim.y = cluster.value.clusterDim.z = 1;
	OK(cuOccupancyMaxActiveClusters(&most, f, &config));
	HOLDS(want == CUDA_SUCCESS ? most > 0 : most == 0);
	OK(cuMemsetD32(p, 0, 1));
	WANT(want, cuLaunchKernelEx(&config, f, params, NULL));
	OK(cuMemcpyDtoH(&n, p, sizeof(n)));
	return (n);
}

int main(void)
{
	const unsigned long long dim[] = { 32, 32 }, strides[] = { 128 };
	const unsigned int box[] = { 8, 8 }, steps[] = { 1, 1 };
	enum { TYPE_INT32 = 3 };
	struct {
		unsigned char bytes[128];
	} __attribute__((aligned(64))) map, none;
	int clusters, tensors;
	CUmodule module;
	CUfunction f;
	CUdeviceptr p;
	unsigned int n;
	CUresult r;

	open_context();
	OK(cuDeviceGetAttribute(&clusters, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 0));
	OK(cuDeviceGetAttribute(&tensors, CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED, 0));
	OK(cuModuleLoadData(&module, image));
	OK(cuModuleGetFunction(&f, module, "count"));
	OK(cuMemAlloc(&p, 4096));
	printf("in clusters of 1: %u\n", launch_clusters(f, 1, p, CUDA_SUCCESS));
	n = launch_clusters(f, 2, p, clusters ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CLUSTER_SIZE);
	HOLDS(n == (clusters ? 16 : 0));
	printf("in clusters of 2: as the device has it\n");

	memset(&map, 0, sizeof(map));
	none = map;
	r = cuTensorMapEncodeTiled(&map, TYPE_INT32, 2, p, dim, strides, box, steps, 0, 0, 0, 0);
	HOLDS(r == (tensors ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED));
	HOLDS((memcmp(&map, &none, sizeof(map)) != 0) == (tensors != 0));
	WANT(r, cuTensorMapReplaceAddress(&map, p + 1024));
	WANT(CUDA_ERROR_INVALID_VALUE, cuTensorMapEncodeTiled(&map, TYPE_INT32, 0, p, dim, strides, box, steps, 0, 0, 0, 0));
	printf("tensor map: as the device has it\n");
	return (0);
}
