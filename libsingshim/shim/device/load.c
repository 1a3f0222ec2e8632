// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * dlopen: a program that opens a library by one of these names, in whatever folder, gets this library, if there
 * is a device server. dlsym: a program that looks up a call of NVRTC in NVRTC's handle, as PyTorch does, gets the call
 * of nvrtc.c. Without a device server nothing of this has an effect.
 */
#define _GNU_SOURCE
#include "load.h"

#include "../../wire/attach.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef void *opener(const char *, int);

static const char names[] = "libcuda.so\0libcuda.so.1\0libnccl.so\0libnccl.so.2\0libnvidia-ml.so\0libnvidia-ml.so.1\0";

static opener *next(void)
{
	static _Atomic(opener *) found;
	opener *f = atomic_load_explicit(&found, memory_order_relaxed);

	if (f == NULL) {
		f = (opener *)dlsym(RTLD_NEXT, "dlopen");
		atomic_store_explicit(&found, f, memory_order_relaxed);
	}
	return f;
}

static void *ourselves(const char *name, int mode)
{
	Dl_info us;

	(void)name;
	return dladdr(names, &us) == 0 ? NULL : next()(us.dli_fname, mode);
}

/* Called by the dlopen below: the place where dlopen goes on. */
__attribute__((used)) static opener *sing_dlopen_way(const char *name)
{
	const char *slash, *server;

	if (name == NULL)
		return next();
	slash = strrchr(name, '/');
	if (slash != NULL)
		name = slash + 1;
	for (const char *n = names; *n != 0; n += strlen(n) + 1)
		if (strcmp(n, name) == 0) {
			server = getenv(SING_DEVICE_ENV);
			return server != NULL && *server != 0 ? ourselves : next();
		}
	return next();
}

finder *sing_next_dlsym(void)
{
	/* dlsym would find the dlsym below. glibc has had these versions of dlsym, the first of them everywhere since 2.34. */
	static const char *const versions[] = { "GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5" };
	static _Atomic(finder *) found;
	finder *f = atomic_load_explicit(&found, memory_order_relaxed);

	for (size_t i = 0; f == NULL && i < sizeof(versions) / sizeof(versions[0]); ++i)
		f = (finder *)dlvsym(RTLD_NEXT, "dlsym", versions[i]);
	atomic_store_explicit(&found, f, memory_order_relaxed);
	return f;
}

/* In the place of dlsym for the name of a call of nvrtc.c: that call, if the library has the name at all. */
static void *find_nvrtc_call(void *library, const char *name)
{
	void *f = sing_next_dlsym()(library, name);

	return f == NULL ? NULL : sing_nvrtc_call(name);
}

/* Called by the dlsym below: the place where dlsym goes on. */
__attribute__((used)) static finder *sing_dlsym_way(void *library, const char *name)
{
	const char *server;

	/* What is next is not ours to choose: a library that stands before NVRTC asks so, as this one does. */
	if (library == RTLD_NEXT || name == NULL || sing_nvrtc_call(name) == NULL)
		return sing_next_dlsym();
	server = getenv(SING_DEVICE_ENV);
	return server != NULL && *server != 0 ? find_nvrtc_call : sing_next_dlsym();
}

/*
 * The next dlopen looks at its caller: where dlopen searches depends on that, and what is next for dlsym. So each must
 * be jumped to, with the unchanged stack.
 */
#if defined(__x86_64__)
#define JUMP(name, way) \
	__asm__(".pushsection .text\n" \
		".globl " name "\n" \
		".type " name ", @function\n" \
		name ":\n" \
		".cfi_startproc\n" \
		"	endbr64\n" \
		"	push %rdi\n" \
		"	.cfi_adjust_cfa_offset 8\n" \
		"	push %rsi\n" \
		"	.cfi_adjust_cfa_offset 8\n" \
		"	sub $8, %rsp\n" \
		"	.cfi_adjust_cfa_offset 8\n" \
		"	call " way "\n" \
		"	add $8, %rsp\n" \
		"	.cfi_adjust_cfa_offset -8\n" \
		"	pop %rsi\n" \
		"	.cfi_adjust_cfa_offset -8\n" \
		"	pop %rdi\n" \
		"	.cfi_adjust_cfa_offset -8\n" \
		"	jmp *%rax\n" \
		".cfi_endproc\n" \
		".size " name ", . - " name "\n" \
		".popsection\n")
#elif defined(__aarch64__)
#define JUMP(name, way) \
	__asm__(".pushsection .text\n" \
		".globl " name "\n" \
		".type " name ", %function\n" \
		name ":\n" \
		".cfi_startproc\n" \
		"	stp x29, x30, [sp, #-32]!\n" \
		"	.cfi_def_cfa_offset 32\n" \
		"	.cfi_offset 29, -32\n" \
		"	.cfi_offset 30, -24\n" \
		"	stp x0, x1, [sp, #16]\n" \
		"	bl " way "\n" \
		"	mov x16, x0\n" \
		"	ldp x0, x1, [sp, #16]\n" \
		"	ldp x29, x30, [sp], #32\n" \
		"	.cfi_restore 29\n" \
		"	.cfi_restore 30\n" \
		"	.cfi_def_cfa_offset 0\n" \
		"	br x16\n" \
		".cfi_endproc\n" \
		".size " name ", . - " name "\n" \
		".popsection\n")
#endif
JUMP("dlopen", "sing_dlopen_way");
JUMP("dlsym", "sing_dlsym_way");
