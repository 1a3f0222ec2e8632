// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0
// expect: the array went with its context: CONTEXT_IS_DESTROYED, then INVALID_HANDLE
// expect: the object went with its context: INVALID_VALUE
// expect: refused while a stream captures, and then destroyed
// software: real devices have no arrays that are captured

/* Arrays and texture objects go with their context: to destroy them later does not free newer objects with their numbers. */
#include "check.h"

#include <string.h>

enum { WIDTH = 64, ARRAY = 0, UNSIGNED_BYTES = 1, INTEGERS = 1 };

/* As the driver has them. */
static struct {
	size_t width, height;
	int format;
	unsigned int channels;
} shape = { WIDTH, 1, UNSIGNED_BYTES, 1 };
struct resource {
	int type;
	union {
		CUarray array;
		int reserved[32];
	};
	unsigned int flags;
};
struct sampling {
	int address[3], filter;
	unsigned int flags, rest[23];
};

static CUtexObject make_object(CUarray array)
{
	struct resource r = { .type = ARRAY, .array = array };
	struct sampling s = { .flags = INTEGERS };
	CUtexObject object;

	OK(cuTexObjectCreate(&object, &r, &s, NULL));
	return (object);
}

static const char *bare_name(CUresult r)
{
	return (name_of(r) + strlen("CUDA_ERROR_"));
}

int main(void)
{
	unsigned char got[WIDTH] = { 0 };
	CUtexObject object;
	CUdeviceptr all[8];
	CUarray array;
	CUstream s;
	CUgraph g;
	CUresult r;

	(void)open_context();
	OK(cuArrayCreate(&array, &shape));
	object = make_object(array);
	OK(cuDevicePrimaryCtxReset(0));
	(void)open_context();
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); ++i) {
		OK(cuMemAlloc(&all[i], WIDTH));
		OK(cuMemsetD8(all[i], (unsigned char)(i + 1), WIDTH));
	}
	r = cuArrayDestroy(array);
	printf("the array went with its context: %s, ", bare_name(r));
	printf("then %s\n", bare_name(cuArrayDestroy(array)));
	printf("the object went with its context: %s\n", bare_name(cuTexObjectDestroy(object)));
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); ++i) {
		OK(cuMemcpyDtoH(got, all[i], WIDTH));
		HOLDS(got[0] == i + 1 && got[WIDTH - 1] == i + 1);
		OK(cuMemFree(all[i]));
	}

	OK(cuArrayCreate(&array, &shape));
	object = make_object(array);
	OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
	WANT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuTexObjectDestroy(object));
	WANT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuArrayDestroy(array));
	WANT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(s, &g));
	OK(cuTexObjectDestroy(object));
	OK(cuArrayDestroy(array));
	puts("refused while a stream captures, and then destroyed");
	return (0);
}
