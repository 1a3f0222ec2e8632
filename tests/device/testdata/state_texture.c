// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0
// software: real devices have no arrays that are captured

// Arrays, textures and a surface that kernels read and write, step by step. After a restore of
// the device server the program's texture and surface objects and its handles of arrays are valid.
// limit: 60s

#include "check.h"

#include <string.h>

static const char image[] = PTX(
	/* A kernel for each step: smooth a texture into a surface, by threads of 32 x 16. */
	".visible .entry blur(.param .u64 texture, .param .u64 surface, .param .f32 shift)\n"
	"{\n"
	".reg .u32 %x, %y, %b, %d, %w; .reg .u64 %t, %s; .reg .f32 %u, %v, %h, %r<5>;\n"
	"mov.u32 %x, %tid.x; mov.u32 %y, %ctaid.x; ld.param.u64 %t, [texture]; ld.param.u64 %s, [surface]; ld.param.f32 %h, [shift];\n"
	"cvt.rn.f32.u32 %u, %x; cvt.rn.f32.u32 %v, %y; add.f32 %u, %u, %h; add.f32 %v, %v, %h;\n"
	"mul.f32 %u, %u, 0f3d000000; mul.f32 %v, %v, 0f3d800000;\n"
	"tex.2d.v4.f32.f32 {%r1, %r2, %r3, %r4}, [%t, {%u, %v}];\n"
	"shl.b32 %w, %x, 2; sust.b.2d.b32.trap [%s, {%w, %y}], {%r1};\n"
	"ret;\n"
	"}\n"
	/* Sum up linear memory by its texture, with texels outside of it. */
	".visible .entry sum(.param .u64 to, .param .u64 texture, .param .u32 n)\n"
	"{\n"
	".reg .u32 %i, %n, %a, %v<5>; .reg .u64 %t, %p; .reg .pred %c;\n"
	"ld.param.u64 %t, [texture]; ld.param.u64 %p, [to]; ld.param.u32 %n, [n]; mov.u32 %i, 0; mov.u32 %a, 0;\n"
	"again: tex.1d.v4.u32.s32 {%v1, %v2, %v3, %v4}, [%t, {%i}]; mad.lo.u32 %a, %a, 31, %v1; add.u32 %a, %a, %v2;\n"
	"add.u32 %i, %i, 1; setp.le.u32 %c, %i, %n; @%c bra again;\n"
	"st.global.u32 [%p], %a; ret;\n"
	"}\n");

enum { W = 32, H = 16, STEPS = 800, TEXELS = 500 };
enum { ARRAY, LINEAR = 2, FLOAT = 0x20, SHORT = 0x02, NORMALIZED = 2, INTEGERS = 1, WRAP = 0, MIRROR = 2, SURFACE = 2 };

/* As the driver has them. */
struct array_shape {
	size_t width, height, depth;
	int format;
	unsigned int channels, flags;
};
struct resource {
	int type;
	union {
		CUarray array;
		struct {
			CUdeviceptr at;
			int format;
			unsigned int channels;
			size_t bytes;
		} linear;
		int reserved[32];
	};
	unsigned int flags;
};
struct sampling {
	int address[3], filter;
	unsigned int flags, anisotropy;
	int level_filter;
	float levels[3], border[4];
	int reserved[12];
};

static unsigned int hash_bytes(const void *from, size_t n)
{
	const unsigned char *p = from;
	unsigned int h = 2166136261u;

	for (size_t i = 0; i < n; ++i)
		h = (h ^ p[i]) * 16777619u;
	return (h);
}

static CUtexObject make_smooth(CUarray array, int mode)
{
	struct resource r = { .type = ARRAY, .array = array };
	struct sampling s = { .address = { mode, mode, mode }, .filter = 1, .flags = NORMALIZED };
	CUtexObject object;

	OK(cuTexObjectCreate(&object, &r, &s, NULL));
	return (object);
}

static void copy_array(CUarray array, float *host, int in)
{
	CUDA_MEMCPY2D c;

	memset(&c, 0, sizeof(c));
	c.srcType = in ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_ARRAY;
	c.dstType = in ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_HOST;
	c.srcHost = c.dstHost = host;
	c.srcArray = c.dstArray = array;
	c.srcPitch = c.dstPitch = W * sizeof(float);
	c.width = W * sizeof(float);
	c.height = H;
	OK(cuMemcpy2D(&c));
}

int main(void)
{
	static float host[W * H];
	static unsigned short words[TEXELS];
	const struct array_shape shape = { W, H, 0, FLOAT, 1, SURFACE };
	struct array_shape told;
	struct resource plain = { .type = LINEAR }, seen;
	struct sampling read = { .flags = INTEGERS };
	CUarray array[2];
	CUtexObject texture[2], linear;
	CUsurfObject surface[2];
	CUcontext ctx;
	CUmodule module;
	CUfunction blur, sum;
	CUdeviceptr memory, total;
	unsigned int result, n = TEXELS;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuCtxSetCurrent(ctx));
	OK(cuModuleLoadData(&module, image));
	OK(cuModuleGetFunction(&blur, module, "blur"));
	OK(cuModuleGetFunction(&sum, module, "sum"));
	for (int i = 0; i < W * H; ++i)
		host[i] = (float)(i * 7919 % 1000);
	for (int i = 0; i < 2; ++i) {
		struct resource r = { .type = ARRAY };

		OK(cuArray3DCreate(&array[i], (void *)&shape));
		copy_array(array[i], host, 1);
		texture[i] = make_smooth(array[i], i == 0 ? WRAP : MIRROR);
		r.array = array[i];
		OK(cuSurfObjectCreate(&surface[i], &r));
	}
	OK(cuMemAlloc(&memory, sizeof(words)));
	OK(cuMemAlloc(&total, 4));
	plain.linear.at = memory;
	plain.linear.format = SHORT;
	plain.linear.channels = 2;
	plain.linear.bytes = sizeof(words);
	OK(cuTexObjectCreate(&linear, &plain, &read, NULL));
	for (unsigned int step = 0; step < STEPS; ++step) {
		float shift = 0.5f + (float)step / 8;
		void *blurs[] = { &texture[step % 2], &surface[1 - step % 2], &shift }, *sums[] = { &total, &linear, &n };
		CUarray one;

		OK(cuLaunchKernel(blur, H, 1, 1, W, 1, 1, 0, NULL, blurs, NULL));
		copy_array(array[1 - step % 2], host, 0);
		for (int i = 0; i < TEXELS; ++i)
			words[i] = (unsigned short)(i * step + (unsigned int)host[i]);
		OK(cuMemcpyHtoD(memory, words, sizeof(words)));
		OK(cuLaunchKernel(sum, 1, 1, 1, 1, 1, 1, 0, NULL, sums, NULL));
		OK(cuMemcpyDtoH(&result, total, 4));
		/* Arrays and objects come and go. */
		OK(cuArray3DCreate(&one, (void *)&shape));
		OK(cuMemcpyAtoA(one, 0, array[0], 0, W * H * sizeof(float)));
		OK(cuTexObjectDestroy(texture[step % 2]));
		texture[step % 2] = make_smooth(array[step % 2], step % 3 == 0 ? WRAP : MIRROR);
		OK(cuMemcpyAtoH(host, one, 64, 64));
		OK(cuArrayDestroy(one));
		WANT(CUDA_ERROR_INVALID_HANDLE, cuArrayDestroy(one));
		OK(cuArray3DGetDescriptor((void *)&told, array[0]));
		OK(cuTexObjectGetResourceDesc((void *)&seen, linear));
		HOLDS(memcmp(&told, &shape, sizeof(told)) == 0 && seen.linear.at == memory);
		printf("step %u %08x %08x\n", step, hash_bytes(host, sizeof(host)), result);
		fflush(stdout);
	}
	return (0);
}
