// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0
// devices: 4
// env: SINGULARITY_SLURM_DEVICE_NAMES=4,5,6,7
// env: CUDA_VISIBLE_DEVICES=6,4
// expect: 2 devices, 2 pointers of their own
// expect: NVML has 4; ours are 2 and 0
// expect: a child sees 0

// A program sees the devices that CUDA_VISIBLE_DEVICES lists, by the names that Slurm gives devices; NVML sees all.

#include "check.h"
#include "nvml.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int index_of(CUdevice dev)
{
	nvmlDevice_t d;
	unsigned n, of = 99;
	char bus[32];

	OK(cuDeviceGetPCIBusId(bus, sizeof(bus), dev));
	OK(nvmlDeviceGetHandleByPciBusId_v2(bus, &d));
	OK(nvmlDeviceGetCount_v2(&n));
	for (unsigned i = 0; i < n; ++i) {
		nvmlDevice_t other;

		OK(nvmlDeviceGetHandleByIndex_v2(i, &other));
		if (other == d)
			of = i;
	}
	return (int)of;
}

int main(int argc, char **argv)
{
	CUcontext ctx[2];
	CUdeviceptr p[2];
	CUdevice dev[2];
	unsigned all;
	int n, status;

	if (argc > 1) {
		WANT(CUDA_ERROR_NO_DEVICE, cuInit(0));
		puts("a child sees 0");
		return 0;
	}
	OK(cuInit(0));
	OK(cuDeviceGetCount(&n));
	for (int i = 0; i < 2; ++i) {
		OK(cuDeviceGet(&dev[i], i));
		OK(cuCtxCreate_v2(&ctx[i], 0, dev[i]));
		OK(cuMemAlloc_v2(&p[i], 1 << 20));
	}
	printf("%d devices, %d pointers of their own\n", n, p[0] != p[1] ? 2 : 1);
	OK(nvmlInit_v2());
	OK(nvmlDeviceGetCount_v2(&all));
	printf("NVML has %u; ours are %d and %d\n", all, index_of(dev[0]), index_of(dev[1]));
	fflush(stdout);
	if (fork() == 0) {
		setenv("CUDA_VISIBLE_DEVICES", "", 1);
		execl("/proc/self/exe", argv[0], "child", NULL);
		_exit(1);
	}
	HOLDS(wait(&status) > 0 && status == 0);
	return 0;
}
