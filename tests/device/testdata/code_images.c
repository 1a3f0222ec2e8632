// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Images to load: text, a file, a fatbin with PTX that is plain, LZ4 or zstd, and images that cannot be run.
// expect: text: 42
// expect: text of PTX 1.4: 42
// expect: text of 3 MiB: 42
// expect: file: 42
// expect: plain fatbin: 42
// expect: lz4 fatbin: 42
// expect: zstd fatbin: 42
// expect: wrapped: 42
// expect: by cuModuleLoadFatBinary: 42
// says: singularity: code cannot be loaded
// misses: code cannot be loaded: load: CUDA_ERROR_NO_BINARY_FOR_GPU: image has no PTX for this device: of 1 pieces of code, 1 are machine code; software GPUs run PTX: compile with it, as by nvcc -gencode arch=compute_80,code=compute_80

#include "check.h"

#include <string.h>
#include <unistd.h>

static const char image[] = PTX(
	".visible .entry answer(.param .u64 p)\n"
	"{ .reg .u64 %p; ld.param.u64 %p, [p]; st.global.u32 [%p], 42; ret; }\n");

/* As compilers wrote fatbins for the first devices, which had no double precision. */
static const char old[] =
	".version 1.4\n"
	".target sm_10, map_f64_to_f32\n"
	".entry answer (.param .u64 __cudaparm_answer_p)\n"
	"{\n"
	"	.reg .u16 %rh<4>;\n"
	"	.reg .u32 %r<8>;\n"
	"	.reg .u64 %rd<4>;\n"
	"	.loc	1	3	0\n"
	"$LBB1_answer:\n"
	"	cvt.u32.u16 %r1, %tid.x;\n"
	"	mov.u16 %rh1, %ctaid.x;\n"
	"	mul.wide.u16 %r2, %rh1, 7;\n"
	"	add.u32 %r3, %r1, %r2;\n"
	"	mul24.lo.u32 %r4, %r3, 3;\n"
	"	add.u32 %r5, %r4, 42;\n"
	"	ld.param.u64 %rd1, [__cudaparm_answer_p];\n"
	"	st.global.u32 [%rd1+0], %r5;\n"
	"	exit;\n"
	"$LDWend_answer:\n"
	"}\n";

struct fatbin {
	unsigned int magic;
	unsigned short version, header;
	unsigned long long body;
	struct {
		unsigned short kind, unused;
		unsigned int header, padded, unused2, payload, unused3;
		unsigned short minor, major;
		unsigned int arch, unused4, unused5;
		unsigned long long flags, unused6, size;
	} entry;
	unsigned char payload[8192];
};

enum { LZ4 = 0x2000, ZSTD = 0x8000 };
enum { LONG = 3 << 20 };

static struct fatbin make_fatbin(unsigned int kind, unsigned int arch, unsigned long long flags, const void *payload, size_t n, size_t size)
{
	struct fatbin f = { .magic = 0xba55ed50, .version = 1, .header = 16 };

	f.entry.kind = (unsigned short)kind;
	f.entry.header = sizeof(f.entry);
	f.entry.padded = (unsigned int)((n + 7) / 8 * 8);
	f.entry.payload = (unsigned int)n;
	f.entry.major = 7;
	f.entry.arch = arch;
	f.entry.flags = flags | 0x11;
	f.entry.size = size;
	f.body = sizeof(f.entry) + f.entry.padded;
	memcpy(f.payload, payload, n);
	return (f);
}

/* An LZ4 block of literals alone. */
static size_t pack_lz4(unsigned char *to, const char *text, size_t n)
{
	unsigned char *p = to;
	size_t more = n - 15;

	*p++ = 0xf0;
	for (; more >= 255; more -= 255)
		*p++ = 255;
	*p++ = (unsigned char)more;
	memcpy(p, text, n);
	return ((size_t)(p - to) + n);
}

/* A zstd frame of a single block that is not compressed. */
static size_t pack_zstd(unsigned char *to, const char *text, size_t n)
{
	const unsigned char head[] = {
		0x28, 0xb5, 0x2f, 0xfd, 0x60, (unsigned char)(n - 256), (unsigned char)((n - 256) >> 8),
		(unsigned char)(n << 3 | 1), (unsigned char)(n >> 5), (unsigned char)(n >> 13),
	};

	memcpy(to, head, sizeof(head));
	memcpy(to + sizeof(head), text, n);
	return (sizeof(head) + n);
}

static void run_answer(const char *what, CUmodule module)
{
	CUfunction answer;
	CUdeviceptr p;
	unsigned int got = 0;
	void *params[] = { &p };

	OK(cuModuleGetFunction(&answer, module, "answer"));
	OK(cuMemAlloc(&p, sizeof(got)));
	OK(cuLaunchKernel(answer, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	OK(cuMemcpyDtoH(&got, p, sizeof(got)));
	OK(cuMemFree(p));
	OK(cuModuleUnload(module));
	printf("%s: %u\n", what, got);
}

static void load_image(const char *what, const void *data)
{
	CUmodule module;

	OK(cuModuleLoadData(&module, data));
	run_answer(what, module);
}

int main(void)
{
	CUmodule module = (CUmodule)&module, before = module;
	unsigned char packed[8192];
	char path[] = "/tmp/image-XXXXXX", padded[2048];
	struct fatbin f;
	struct {
		unsigned int magic, version;
		const void *data, *list;
	} wrapper = { 0x466243b1, 1, &f, NULL };
	char *long_text;
	int fd;

	open_context();
	load_image("text", image);
	load_image("text of PTX 1.4", old);

	/* Longer than any message of the ring. */
	long_text = malloc(LONG + sizeof(image));
	HOLDS(long_text != NULL);
	memset(long_text, '\n', LONG);
	memcpy(long_text + LONG, image, sizeof(image));
	load_image("text of 3 MiB", long_text);
	free(long_text);

	fd = mkstemp(path);
	HOLDS(fd >= 0 && write(fd, image, sizeof(image) - 1) == sizeof(image) - 1 && close(fd) == 0);
	OK(cuModuleLoad(&module, path));
	run_answer("file", module);
	unlink(path);
	module = before;
	WANT(CUDA_ERROR_FILE_NOT_FOUND, cuModuleLoad(&module, path));

	/* Longer than 256 bytes, as a frame's header of this form says. */
	snprintf(padded, sizeof(padded), "%s//%*s\n", image, 300, "");
	f = make_fatbin(1, 70, 0, padded, strlen(padded) + 1, 0);
	load_image("plain fatbin", &f);
	f = make_fatbin(1, 70, LZ4, packed, pack_lz4(packed, padded, strlen(padded)), strlen(padded));
	load_image("lz4 fatbin", &f);
	f = make_fatbin(1, 70, ZSTD, packed, pack_zstd(packed, padded, strlen(padded)), strlen(padded));
	load_image("zstd fatbin", &f);
	load_image("wrapped", &wrapper);
	OK(cuModuleLoadFatBinary(&module, &wrapper));
	run_answer("by cuModuleLoadFatBinary", module);

	/* Images that cannot be run, and bytes that are no image. */
	module = before;
	f = make_fatbin(2, 80, 0, "machine code", 13, 0);
	WANT(CUDA_ERROR_NO_BINARY_FOR_GPU, cuModuleLoadData(&module, &f));
	f = make_fatbin(1, 130, 0, image, sizeof(image), 0);
	WANT(CUDA_ERROR_NO_BINARY_FOR_GPU, cuModuleLoadData(&module, &f));
	f = make_fatbin(1, 70, LZ4, "\xff\xff\xff", 3, 400);
	WANT(CUDA_ERROR_INVALID_IMAGE, cuModuleLoadData(&module, &f));
	f = make_fatbin(1, 70, 0, image, sizeof(image), 0);
	f.body = 1ull << 62;
	WANT(CUDA_ERROR_INVALID_IMAGE, cuModuleLoadData(&module, &f));
	WANT(CUDA_ERROR_INVALID_IMAGE, cuModuleLoadData(&module, "no code at all"));
	WANT(CUDA_ERROR_INVALID_PTX, cuModuleLoadData(&module, PTX(".entry f() { no.such.instruction; }")));
	WANT(CUDA_ERROR_INVALID_VALUE, cuModuleLoadData(&module, NULL));
	WANT(CUDA_ERROR_INVALID_VALUE, cuModuleLoadData(NULL, image));
	HOLDS(module == before);
	OK(cuModuleLoadData(&module, image));
	OK(cuModuleUnload(module));
	WANT(CUDA_ERROR_INVALID_HANDLE, cuModuleUnload(module));
	WANT(CUDA_ERROR_INVALID_HANDLE, cuModuleUnload(NULL));
	return (0);
}
