// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * Pinned memory. The server maps memory that is allocated as pinned, and kernels may follow its addresses. Memory that
 * the program had before and registers is read and written by the server when a copy is carried out, and kernels do not
 * reach it. Both must stay mapped while copies are under way, so that freeing memory waits for the copies, as with
 * CUDA.
 */
#define _GNU_SOURCE
#include "hostmem.h"

#include "../raw.h"

#include "capture.h"
#include "context.h"
#include "gen_abi.h"
#include "transport.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { PAGE = 4096 };

/* All pinned memory, sorted by address. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sing_pinned *all;
static size_t count, room;
static uint64_t last_id;

/* The index of the first pinned memory that ends behind this address. */
static size_t find_index(uintptr_t at)
{
	size_t low = 0, high = count;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;

		if (all[middle].begin + all[middle].n <= at)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

bool sing_is_pinned(uintptr_t at, size_t n, struct sing_pinned *what)
{
	bool is = false;
	size_t i;

	pthread_mutex_lock(&lock);
	i = find_index(at);
	if (i < count && all[i].begin <= at && n <= all[i].begin + all[i].n - at) {
		is = true;
		if (what != NULL)
			*what = all[i];
	}
	pthread_mutex_unlock(&lock);
	return is;
}

static CUresult add_pinned(const struct sing_pinned *p)
{
	CUresult r = CUDA_SUCCESS;
	size_t i;

	pthread_mutex_lock(&lock);
	if (count == room) {
		const size_t more = room == 0 ? 64 : room * 2;
		struct sing_pinned *larger = realloc(all, more * sizeof(*all));

		if (larger != NULL) {
			all = larger;
			room = more;
		}
	}
	i = find_index(p->begin);
	if (i < count && all[i].begin < p->begin + p->n) {
		r = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	} else if (count == room) {
		r = CUDA_ERROR_OUT_OF_MEMORY;
	} else {
		memmove(all + i + 1, all + i, (count - i) * sizeof(*all));
		all[i] = *p;
		all[i].id = ++last_id;
		++count;
	}
	pthread_mutex_unlock(&lock);
	return r;
}

/* Forget the pinned memory that begins there. */
static void remove_pinned(uintptr_t begin)
{
	size_t i;

	pthread_mutex_lock(&lock);
	i = find_index(begin);
	if (i < count && all[i].begin == begin) {
		--count;
		memmove(all + i, all + i + 1, (count - i) * sizeof(*all));
	}
	pthread_mutex_unlock(&lock);
}

/*
 * Memory that another process can map and no process can make shorter; its descriptor is *fd. A child of fork
 * does not get the memory, as with CUDA. Where the kernel refuses such memory, the result is ordinary memory,
 * and *fd is -1. Returns an address or an error.
 */
static unsigned long map_shared(size_t n, int *fd)
{
	unsigned long at = -1UL;

	*fd = (int)raw6(SYS_memfd_create, (long)"singularity-pinned", MFD_CLOEXEC | MFD_ALLOW_SEALING, 0, 0, 0, 0);
	if (*fd >= 0 && raw6(SYS_ftruncate, *fd, (long)n, 0, 0, 0, 0) == 0 &&
	    raw6(SYS_fcntl, *fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL, 0, 0, 0) == 0)
		at = (unsigned long)raw6(SYS_mmap, 0, (long)n, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	if (at <= -4096UL && raw6(SYS_madvise, (long)at, (long)n, MADV_DONTFORK, 0, 0, 0) == 0)
		return at;
	if (at <= -4096UL)
		(void)raw6(SYS_munmap, (long)at, (long)n, 0, 0, 0, 0);
	if (*fd >= 0)
		(void)raw6(SYS_close, *fd, 0, 0, 0, 0, 0);
	*fd = -1;
	return (unsigned long)raw6(SYS_mmap, 0, (long)n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* The server has mapped the memory now. */
static void set_shared(uintptr_t begin)
{
	size_t i;

	pthread_mutex_lock(&lock);
	i = find_index(begin);
	if (i < count && all[i].begin == begin)
		all[i].shared = true;
	pthread_mutex_unlock(&lock);
}

/* Free memory that was to be managed memory, but that kernels would not reach. */
static CUresult give_back(unsigned long at)
{
	(void)sing_send_host_free(0, (void *)at);
	remove_pinned(at);
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* Note pinned memory with the server, and share the memory of a descriptor, if there is one. */
static CUresult tell_server(const struct sing_pinned *made, size_t whole, int fd)
{
	void *const at = (void *)made->begin;
	const CUresult r = made->variables ? sing_send_managed_alloc(0, at, made->n) : sing_send_host_alloc(0, at, made->n, made->flags);

	if (r != CUDA_SUCCESS)
		remove_pinned(made->begin);
	else if (fd >= 0 && sing_send_host_share(0, at, whole, fd) == CUDA_SUCCESS)
		set_shared(made->begin);
	else if (made->managed)
		return give_back(made->begin);
	return r;
}

/* Allocate pinned memory with the size, flags and kind of made; sets its place. */
static CUresult make_pinned(struct sing_pinned *made)
{
	const size_t whole = (made->n + PAGE - 1) & ~(size_t)(PAGE - 1);
	unsigned long at;
	CUresult r;
	int fd;

	at = map_shared(whole, &fd);
	if (at > -4096UL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	made->begin = at;
	r = add_pinned(made);
	if (r == CUDA_SUCCESS)
		r = tell_server(made, whole, fd);
	if (fd >= 0)
		(void)raw6(SYS_close, fd, 0, 0, 0, 0, 0);
	if (r != CUDA_SUCCESS)
		(void)raw6(SYS_munmap, (long)at, (long)made->n, 0, 0, 0, 0);
	return r;
}

static CUresult allocate_pinned(void **p, size_t n, unsigned int flags, bool managed)
{
	struct sing_pinned made = { .n = n, .flags = flags, .managed = managed };
	CUresult r = sing_context_check();

	if (r != CUDA_SUCCESS)
		return r;
	if (p == NULL || n == 0 || n > PTRDIFF_MAX - PAGE || flags & ~(unsigned)(CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED))
		return CUDA_ERROR_INVALID_VALUE;
	made.context = sing_current->handle;
	made.device = sing_current->device;
	r = make_pinned(&made);
	if (r == CUDA_SUCCESS)
		*p = (void *)made.begin;
	return r;
}

int sing_pinned_allocate_variables(uintptr_t *at, size_t n)
{
	struct sing_pinned made = { .n = n, .managed = true, .variables = true };
	CUresult r;

	if (sing_current != NULL) {
		made.context = sing_current->handle;
		made.device = sing_current->device;
	}
	r = n > PTRDIFF_MAX - PAGE ? CUDA_ERROR_OUT_OF_MEMORY : make_pinned(&made);
	if (r == CUDA_SUCCESS)
		*at = made.begin;
	return r;
}

/*
 * Wait for the work that may still use the memory, if captures allow a call that frees. An error of the wait, as from
 * a server that is gone, is ignored.
 */
static CUresult wait_for_use(const struct sing_pinned *p)
{
	const struct sing_context *owner = sing_context_find(p->context);
	const CUresult r = sing_capture_allows_unsafe();

	if (r != CUDA_SUCCESS)
		return r;
	sing_capture_own_wait(true);
	if (owner != NULL && owner != sing_current && atomic_load(&owner->alive))
		(void)sing_send_cuCtxSynchronize_v2(0, (CUcontext)(uintptr_t)p->context);
	(void)sing_send_cuCtxSynchronize(0);
	sing_capture_own_wait(false);
	return CUDA_SUCCESS;
}

int sing_pinned_allocate(uintptr_t *at, size_t n)
{
	void *p;
	const CUresult r = allocate_pinned(&p, n, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP, true);

	if (r == CUDA_SUCCESS)
		*at = (uintptr_t)p;
	return r;
}

int sing_pinned_free(const struct sing_pinned *what)
{
	CUresult r = wait_for_use(what);

	if (r == CUDA_SUCCESS)
		r = sing_send_host_free(0, (void *)what->begin);
	if (r != CUDA_SUCCESS)
		return r;
	remove_pinned(what->begin);
	(void)raw6(SYS_munmap, (long)what->begin, (long)what->n, 0, 0, 0, 0);
	return CUDA_SUCCESS;
}

void sing_pinned_free_variables(uintptr_t at)
{
	struct sing_pinned what;

	if (!sing_is_pinned(at, 1, &what))
		return;
	(void)sing_send_host_free(0, (void *)at);
	remove_pinned(at);
	(void)raw6(SYS_munmap, (long)at, (long)what.n, 0, 0, 0, 0);
}

CUresult sing_cuMemAllocHost_v2(void **p, size_t n)
{
	return allocate_pinned(p, n, 0, false);
}
SING_PUBLIC(cuMemAllocHost_v2);

CUresult sing_cuMemHostAlloc(void **p, size_t n, unsigned int flags)
{
	return allocate_pinned(p, n, flags, false);
}
SING_PUBLIC(cuMemHostAlloc);

CUresult sing_cuMemFreeHost(void *p)
{
	struct sing_pinned what;
	CUresult r = sing_context_check();

	if (r != CUDA_SUCCESS)
		return r;
	if (!sing_is_pinned((uintptr_t)p, 1, &what) || what.begin != (uintptr_t)p || what.registered || what.managed)
		return CUDA_ERROR_INVALID_VALUE;
	return sing_pinned_free(&what);
}
SING_PUBLIC(cuMemFreeHost);

/* Whether there is memory in all of the pages. */
static bool is_mapped(uintptr_t at, size_t n)
{
	unsigned char pages[512];
	uintptr_t page = at & ~(uintptr_t)(PAGE - 1);
	const uintptr_t end = at + n;

	while (page < end) {
		const size_t left = end - page, size = left < sizeof(pages) * PAGE ? left : sizeof(pages) * PAGE;

		if (raw6(SYS_mincore, (long)page, (long)size, (long)pages, 0, 0, 0) != 0)
			return false;
		page += (size + PAGE - 1) & ~(size_t)(PAGE - 1);
	}
	return true;
}

CUresult sing_cuMemHostRegister_v2(void *p, size_t n, unsigned int flags)
{
	const unsigned int known = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;
	struct sing_pinned made = { .begin = (uintptr_t)p, .n = n, .flags = flags, .registered = true };
	CUresult r = sing_context_check();

	if (r != CUDA_SUCCESS)
		return r;
	if (p == NULL || n == 0 || n > PTRDIFF_MAX || made.begin + n < made.begin || flags & ~known)
		return CUDA_ERROR_INVALID_VALUE;
	if (flags & CU_MEMHOSTREGISTER_IOMEMORY)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!is_mapped(made.begin, n))
		return CUDA_ERROR_INVALID_VALUE;
	made.context = sing_current->handle;
	made.device = sing_current->device;
	r = add_pinned(&made);
	if (r != CUDA_SUCCESS)
		return r;
	r = sing_send_host_register(0, p, n, flags);
	if (r != CUDA_SUCCESS)
		remove_pinned(made.begin);
	return r;
}
SING_PUBLIC(cuMemHostRegister_v2);

CUresult sing_cuMemHostUnregister(void *p)
{
	struct sing_pinned what;
	CUresult r = sing_context_check();

	if (r != CUDA_SUCCESS)
		return r;
	if (p == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sing_is_pinned((uintptr_t)p, 1, &what) || what.begin != (uintptr_t)p || !what.registered)
		return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
	r = wait_for_use(&what);
	if (r == CUDA_SUCCESS)
		r = sing_send_host_unregister(0, p);
	if (r == CUDA_SUCCESS)
		remove_pinned(what.begin);
	return r;
}
SING_PUBLIC(cuMemHostUnregister);

CUresult sing_cuMemHostGetFlags(unsigned int *flags, void *p)
{
	struct sing_pinned what;
	const CUresult r = sing_context_check();

	if (r != CUDA_SUCCESS)
		return r;
	if (flags == NULL || !sing_is_pinned((uintptr_t)p, 1, &what) || what.registered || what.managed)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = what.flags;
	return CUDA_SUCCESS;
}
SING_PUBLIC(cuMemHostGetFlags);

CUresult sing_cuMemHostGetDevicePointer_v2(CUdeviceptr *ptr, void *p, unsigned int flags)
{
	static _Atomic bool said;
	struct sing_pinned what;
	const CUresult r = sing_context_check();

	if (r != CUDA_SUCCESS)
		return r;
	if (ptr == NULL || flags != 0 || !sing_is_pinned((uintptr_t)p, 1, &what))
		return CUDA_ERROR_INVALID_VALUE;
	if (!what.shared) {
		if (!atomic_exchange(&said, true))
			sing_missed("cuMemHostGetDevicePointer_v2", "kernels do not reach this memory of the program; copy it");
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	*ptr = (uintptr_t)p;
	return CUDA_SUCCESS;
}
SING_PUBLIC(cuMemHostGetDevicePointer_v2);
