// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0
// devices: 2
// expect: 2 devices
// expect: 0: a capability, of a device with a name
// expect: 1: a capability, of a device with a name

#include "check.h"

#include <string.h>

int main(void)
{
	int n, major, minor;
	char name[64];
	CUdevice dev;

	WANT(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetCount(&n));
	WANT(CUDA_ERROR_INVALID_VALUE, cuInit(1));
	OK(cuInit(0));
	OK(cuInit(0));
	OK(cuDeviceGetCount(&n));
	printf("%d devices\n", n);
	for (int i = 0; i < n; ++i) {
		OK(cuDeviceGet(&dev, i));
		OK(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, dev));
		OK(cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, dev));
		OK(cuDeviceGetName(name, sizeof(name), dev));
		HOLDS(major >= 7 && major < 100 && minor >= 0 && minor < 10 && name[0] != 0);
		HOLDS(strcmp(name, "Singularity software GPU") != 0 || (major == 10 && minor == 0));
		printf("%d: a capability, of a device with a name\n", i);
	}
	WANT(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&dev, n));
	WANT(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&dev, -1));
	return (0);
}
