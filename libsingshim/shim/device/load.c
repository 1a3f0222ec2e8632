// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * dlopen: a program that opens a library by one of these names, in any folder, gets this library, if there is a device
 * server. dlsym: a program that looks up a call of NVRTC in NVRTC's handle, as PyTorch does, gets the call of nvrtc.c;
 * the calls of nvJitLink are in jitlink.c, and cuBLAS's in blas.c. Without a device server, both lead to the real
 * libraries.
 */
#define _GNU_SOURCE
#include "load.h"

#include "../../wire/attach.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef void *opener(const char *, int);
typedef void *finder(void *, const char *);

#define JITLINK "libnvJitLink.so"

static const char names[] = "libcuda.so\0libcuda.so.1\0libnccl.so\0libnccl.so.2\0libnvidia-ml.so\0libnvidia-ml.so.1\0";

static opener *next_dlopen(void)
{
	static _Atomic(opener *) found;
	opener *f = atomic_load_explicit(&found, memory_order_relaxed);

	if (f == NULL) {
		f = (opener *)dlsym(RTLD_NEXT, "dlopen");
		atomic_store_explicit(&found, f, memory_order_relaxed);
	}
	return f;
}

static void *open_ourselves(const char *name, int mode)
{
	Dl_info us;

	(void)name;
	return dladdr(names, &us) == 0 ? NULL : next_dlopen()(us.dli_fname, mode);
}

/* dlopen that finds no library. */
static void *open_nothing(const char *name, int mode)
{
	(void)name;
	return next_dlopen()("/none/libcuda.so", mode);
}

/*
 * Whether caller is in nvJitLink, which must not find a driver. nvJitLink links by the driver if it finds one, through
 * a table without a public description, and fails if the driver has no such table. Without a driver nvJitLink links by
 * itself.
 */
static int is_in_jitlink(const void *caller)
{
	const char *slash;
	Dl_info of;

	if (dladdr(caller, &of) == 0 || of.dli_fname == NULL)
		return 0;
	slash = strrchr(of.dli_fname, '/');
	return strncmp(slash != NULL ? slash + 1 : of.dli_fname, JITLINK, strlen(JITLINK)) == 0;
}

/* Called by the dlopen below: returns the function to jump to. */
__attribute__((used)) static opener *sing_dlopen_way(const char *name, int mode, const void *caller)
{
	const char *slash, *server;

	(void)mode;
	if (name == NULL)
		return next_dlopen();
	slash = strrchr(name, '/');
	if (slash != NULL)
		name = slash + 1;
	for (const char *n = names; *n != 0; n += strlen(n) + 1)
		if (strcmp(n, name) == 0) {
			server = getenv(SING_DEVICE_ENV);
			if (server == NULL || *server == 0)
				return next_dlopen();
			return strncmp(name, "libcuda.so", 10) == 0 && is_in_jitlink(caller) ? open_nothing : open_ourselves;
		}
	return next_dlopen();
}

/* dlsym of the C library. */
static finder *next_dlsym(void)
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

/* The name of the library that take_path looks for, and the path that it finds. */
struct wanted {
	const char *name;
	char path[PATH_MAX];
};

/* Whether a file's name is that of a library, as in libcublas.so.12 or, of some packages, libcublas-3fa9c1d2.so.12. */
static int is_named(const char *file, const char *library)
{
	const size_t n = strlen(library);

	return strncmp(file, library, n) == 0 && (file[n] == '.' || file[n] == '-');
}

/*
 * Called for each library in the process: takes the path of the wanted library, to which some packages give a longer
 * name.
 */
static int take_path(struct dl_phdr_info *library, size_t size, void *to)
{
	struct wanted *const wanted = to;
	const char *slash = strrchr(library->dlpi_name, '/');
	const char *name = slash != NULL ? slash + 1 : library->dlpi_name;

	(void)size;
	if (!is_named(name, wanted->name) || strncmp(name, "libnvrtc-builtins", 17) == 0 ||
	    strlen(library->dlpi_name) >= sizeof(wanted->path))
		return 0;
	strcpy(wanted->path, library->dlpi_name);
	return 1;
}

/*
 * RTLD_NEXT does not see a library that was loaded with another library by RTLD_LOCAL, as PyTorch's libcaffe2_nvrtc
 * brings NVRTC.
 */
void *sing_find_call(const char *name, const char *symbol)
{
	struct wanted wanted = { .name = name };
	finder *const find = next_dlsym();
	void *f = find(RTLD_NEXT, symbol), *library;

	if (f == NULL && dl_iterate_phdr(take_path, &wanted) != 0) {
		library = dlopen(wanted.path, RTLD_LAZY | RTLD_NOLOAD);
		if (library != NULL) {
			f = find(library, symbol);
			dlclose(library);
		}
	}
	/* A program that asks dlerror later must not find this failure. */
	if (f == NULL)
		dlerror();
	return f;
}

/* Whether an address is in this library, which programs also find as libcuda.so.1. */
static int is_ours(const void *address)
{
	Dl_info at, own;

	return dladdr(address, &at) != 0 && dladdr((void *)sing_find_call, &own) != 0 && at.dli_fbase == own.dli_fbase;
}

/*
 * The function that the caller would have called without this library: the first in the caller's own library and in the
 * libraries that it needs. So if several libraries have a libcublas each, perhaps of different releases, each calls its
 * own. NULL if the caller is the program itself, for which the next function is right, if its library needs no library
 * with the function, and if that library needs this library first.
 */
void *sing_find_of_caller(const void *caller, const char *symbol)
{
	finder *const find = next_dlsym();
	struct link_map *of = NULL;
	void *f = NULL, *library;
	Dl_info at;

	if (dladdr1(caller, &at, (void **)&of, RTLD_DL_LINKMAP) == 0 || of == NULL || of->l_name[0] == 0)
		return NULL;
	library = dlopen(of->l_name, RTLD_LAZY | RTLD_NOLOAD);
	if (library != NULL) {
		f = find(library, symbol);
		dlclose(library);
	}
	if (f == NULL)
		dlerror();
	return f != NULL && !is_ours(f) ? f : NULL;
}

/* Our function for the call with this name of NVRTC, nvJitLink or cuBLAS, or NULL. */
static void *library_call(const char *name)
{
	void *f = sing_nvrtc_call(name);

	if (f == NULL)
		f = sing_jitlink_call(name);
	return f != NULL ? f : sing_blas_call(name);
}

/* dlsym for the name of such a call: our function, if the library has the name at all. */
static void *find_library_call(void *library, const char *name)
{
	void *f = next_dlsym()(library, name);

	return f == NULL ? NULL : library_call(name);
}

/* Called by the dlsym below: returns the function to jump to. */
__attribute__((used)) static finder *sing_dlsym_way(void *library, const char *name)
{
	const char *server;

	/*
	 * RTLD_NEXT goes to the real dlsym: a library that stands before NVRTC looks for NVRTC's call so, as this
	 * library does.
	 */
	if (library == RTLD_NEXT || name == NULL || library_call(name) == NULL)
		return next_dlsym();
	server = getenv(SING_DEVICE_ENV);
	return server != NULL && *server != 0 ? find_library_call : next_dlsym();
}

/*
 * The real dlopen and dlsym look at their caller: it decides where dlopen searches, and which library is next for
 * dlsym. So both must be reached by a jump, with the stack unchanged.
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
		"	mov 24(%rsp), %rdx\n" /* the caller */ \
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
		"	mov x2, x30\n" /* the caller */ \
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
