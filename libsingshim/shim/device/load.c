// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * dlopen: a program that opens a library by one of these names, in whatever folder, gets this library, if there
 * is a device server. Without a device server nothing of this has an effect.
 */
#define _GNU_SOURCE
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

/*
 * The next dlopen looks at its caller: where dlopen searches depends on that. So dlopen must be jumped to, with
 * the unchanged stack.
 */
#if defined(__x86_64__)
__asm__(".pushsection .text\n"
	".globl dlopen\n"
	".type dlopen, @function\n"
	"dlopen:\n"
	".cfi_startproc\n"
	"	endbr64\n"
	"	push %rdi\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	push %rsi\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	sub $8, %rsp\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	call sing_dlopen_way\n"
	"	add $8, %rsp\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	pop %rsi\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	pop %rdi\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	jmp *%rax\n"
	".cfi_endproc\n"
	".size dlopen, . - dlopen\n"
	".popsection\n");
#elif defined(__aarch64__)
__asm__(".pushsection .text\n"
	".globl dlopen\n"
	".type dlopen, %function\n"
	"dlopen:\n"
	".cfi_startproc\n"
	"	stp x29, x30, [sp, #-32]!\n"
	"	.cfi_def_cfa_offset 32\n"
	"	.cfi_offset 29, -32\n"
	"	.cfi_offset 30, -24\n"
	"	stp x0, x1, [sp, #16]\n"
	"	bl sing_dlopen_way\n"
	"	mov x16, x0\n"
	"	ldp x0, x1, [sp, #16]\n"
	"	ldp x29, x30, [sp], #32\n"
	"	.cfi_restore 29\n"
	"	.cfi_restore 30\n"
	"	.cfi_def_cfa_offset 0\n"
	"	br x16\n"
	".cfi_endproc\n"
	".size dlopen, . - dlopen\n"
	".popsection\n");
#endif
