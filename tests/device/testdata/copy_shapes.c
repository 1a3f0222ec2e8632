// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0
// expect: done
// software: real devices have no arrays that are captured

/* Copies of two and three dimensions, each with an origin and pitches of its own. */
#include "check.h"

#include <string.h>

enum { W = 37, H = 11, D = 5, PITCH = 96, ROWS = 16, SIZE = PITCH * ROWS * 8 };

static unsigned char host[2][SIZE];

/* Software GPUs have arrays; on a real GPU they are refused. */
static void to_array(CUDA_MEMCPY2D *c)
{
	const struct {
		size_t width, height;
		int format;
		unsigned int channels;
	} shape = { 256, 64, 1, 1 };
	CUarray array;
	const CUresult made = cuArrayCreate(&array, &shape);

	HOLDS(made == CUDA_SUCCESS || made == CUDA_ERROR_NOT_SUPPORTED);
	c->dstArray = made == CUDA_SUCCESS ? array : (CUarray)c;
	WANT(made == CUDA_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE, cuMemcpy2D(c));
}

static void copy_flat(CUdeviceptr device, CUstream stream)
{
	CUDA_MEMCPY2D c;

	for (int i = 0; i < SIZE; ++i)
		host[0][i] = (unsigned char)(i * 7 + 3);
	for (int async = 0; async < 2; ++async) {
		memset(host[1], 0xee, SIZE);
		OK(cuMemsetD8(device, 0, SIZE));
		memset(&c, 0, sizeof(c));
		c.srcType = CU_MEMORYTYPE_HOST;
		c.srcHost = host[0];
		c.srcX = 5;
		c.srcY = 2;
		c.srcPitch = PITCH;
		c.dstType = CU_MEMORYTYPE_DEVICE;
		c.dstDevice = device;
		c.dstX = 9;
		c.dstY = 1;
		c.dstPitch = 128;
		c.width = W;
		c.height = H;
		OK(async ? cuMemcpy2DAsync(&c, stream) : cuMemcpy2D(&c));
		memset(&c, 0, sizeof(c));
		c.srcType = CU_MEMORYTYPE_DEVICE;
		c.srcDevice = device;
		c.srcX = 9;
		c.srcY = 1;
		c.srcPitch = 128;
		c.dstType = CU_MEMORYTYPE_HOST;
		c.dstHost = host[1];
		c.dstPitch = 64;
		c.width = W;
		c.height = H;
		OK(async ? cuMemcpy2DAsync(&c, stream) : cuMemcpy2DUnaligned(&c));
		OK(cuStreamSynchronize(stream)); /* memory that is not pinned does not need that */
		for (int y = 0; y < H; ++y) {
			HOLDS(memcmp(host[1] + y * 64, host[0] + (y + 2) * PITCH + 5, W) == 0);
			HOLDS(host[1][y * 64 + W] == 0xee);
		}
	}
	c.dstPitch = W - 1;
	WANT(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D(&c));
	c.dstPitch = 64;
	c.dstType = 9;
	WANT(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D(&c));
	c.dstType = CU_MEMORYTYPE_ARRAY;
	WANT(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D(&c)); /* of no array */
	to_array(&c);
	c.width = 0;
	OK(cuMemcpy2D(&c));
}

static void copy_solid(CUdeviceptr device, CUstream stream)
{
	CUDA_MEMCPY3D c;

	for (int async = 0; async < 2; ++async) {
		memset(host[1], 0xee, SIZE);
		memset(&c, 0, sizeof(c));
		c.srcType = CU_MEMORYTYPE_HOST;
		c.srcHost = host[0];
		c.srcX = 3;
		c.srcY = 1;
		c.srcZ = 2;
		c.srcPitch = PITCH;
		c.srcHeight = ROWS;
		c.dstType = CU_MEMORYTYPE_DEVICE;
		c.dstDevice = device;
		c.dstPitch = 64;
		c.dstHeight = H;
		c.width = W;
		c.height = H;
		c.depth = D;
		OK(async ? cuMemcpy3DAsync(&c, stream) : cuMemcpy3D(&c));
		memset(&c, 0, sizeof(c));
		c.srcType = CU_MEMORYTYPE_DEVICE;
		c.srcDevice = device;
		c.srcPitch = 64;
		c.srcHeight = H;
		c.dstType = CU_MEMORYTYPE_HOST;
		c.dstHost = host[1];
		c.dstPitch = 48;
		c.dstHeight = 12;
		c.width = W;
		c.height = H;
		c.depth = D;
		OK(async ? cuMemcpy3DAsync(&c, stream) : cuMemcpy3D(&c));
		for (int z = 0; z < D; ++z)
			for (int y = 0; y < H; ++y)
				HOLDS(memcmp(host[1] + (z * 12 + y) * 48, host[0] + ((z + 2) * ROWS + y + 1) * PITCH + 3, W) == 0);
	}
}

int main(void)
{
	CUdeviceptr device;
	CUstream stream;

	open_context();
	OK(cuMemAlloc(&device, SIZE));
	OK(cuStreamCreate(&stream, 0));
	copy_flat(device, stream);
	copy_solid(device, stream);
	OK(cuMemHostRegister(host, sizeof(host), 0));
	copy_flat(device, stream);
	printf("done\n");
	return (0);
}
