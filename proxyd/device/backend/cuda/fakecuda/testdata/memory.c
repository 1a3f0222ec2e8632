// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#include "fake.h"

#include <sys/mman.h>
#include <unistd.h>

/* Physical memory is a file, which can be mapped more than once. */
struct physical {
	int fd, id, refs, device;
	size_t n;
};

static size_t taken[DEVICES];

struct mapping {
	struct mapping *next;
	uint64_t at;
	size_t n;
	struct physical *memory;
	unsigned int devices; /* that may use the memory, a bit each */
};

static struct mapping *mappings;
static struct { uint64_t at; size_t n; } registered[64];

CUresult cuMemAddressReserve(CUdeviceptr *ptr, size_t n, size_t alignment, CUdeviceptr at, unsigned long long flags)
{
	void *p;

	CALL(" %zu bytes aligned to %zu at %#llx, flags %llu", n, alignment, at, flags);
	p = mmap((void *)at, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return (OUT_OF_MEMORY);
	fake_count(NULL, RESERVATIONS, 1);
	*ptr = (CUdeviceptr)p;
	return (OK);
}

CUresult cuMemAddressFree(CUdeviceptr ptr, size_t n)
{
	ENDING(" %zu bytes at %#llx", n, ptr);
	fake_count(NULL, RESERVATIONS, -1);
	munmap((void *)ptr, n);
	return (told);
}

CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop, int option)
{
	CALL(" device %d, option %d", prop->location.id, option);
	*granularity = 2 << 20;
	return (OK);
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t n, const CUmemAllocationProp *prop, unsigned long long flags)
{
	struct physical *m;

	CALL(" %zu bytes, type %d, at %d %d, rdma %d, flags %llu", n, prop->type, prop->location.type, prop->location.id, prop->gpuDirectRDMACapable, flags);
	pthread_mutex_lock(&big);
	if (taken[prop->location.id] + n > memory_of_device()) {
		pthread_mutex_unlock(&big);
		return (OUT_OF_MEMORY);
	}
	taken[prop->location.id] += n;
	pthread_mutex_unlock(&big);
	m = fake_count(calloc(1, sizeof(*m)), MEMORIES, 1);
	m->id = fake_number(MEMORIES);
	m->device = prop->location.id;
	m->n = n;
	m->refs = 1;
	m->fd = memfd_create("fake", MFD_CLOEXEC);
	if (m->fd < 0 || ftruncate(m->fd, n))
		abort();
	*handle = (CUmemGenericAllocationHandle)m;
	return (OK);
}

static void drop_physical(struct physical *m)
{
	if (--m->refs > 0)
		return;
	taken[m->device] -= m->n;
	close(m->fd);
	free(fake_count(m, MEMORIES, -1));
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	struct physical *m = (struct physical *)handle;

	ENDING(" memory %d", m->id);
	pthread_mutex_lock(&big);
	drop_physical(m);
	pthread_mutex_unlock(&big);
	return (told);
}

CUresult cuMemMap(CUdeviceptr ptr, size_t n, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	struct physical *m = (struct physical *)handle;
	struct mapping *x;

	CALL(" %zu bytes at %#llx, offset %zu of memory %d, flags %llu", n, ptr, offset, m->id, flags);
	pthread_mutex_lock(&big);
	for (x = mappings; x; x = x->next)
		if (ptr < x->at + x->n && x->at < ptr + n)
			break;
	if (x || n != m->n || offset) {
		pthread_mutex_unlock(&big);
		return (INVALID_VALUE);
	}
	x = fake_count(calloc(1, sizeof(*x)), MAPPINGS, 1);
	*x = (struct mapping){ mappings, ptr, n, m, 0 };
	mappings = x;
	m->refs++;
	if (mmap((void *)ptr, n, PROT_NONE, MAP_SHARED | MAP_FIXED, m->fd, 0) == MAP_FAILED)
		abort();
	pthread_mutex_unlock(&big);
	return (OK);
}

CUresult cuMemUnmap(CUdeviceptr ptr, size_t n)
{
	CUresult r = INVALID_VALUE;

	ENDING(" %zu bytes at %#llx", n, ptr);
	pthread_mutex_lock(&big);
	for (struct mapping **at = &mappings; *at;) {
		struct mapping *x = *at;

		if (x->at < ptr || x->at + x->n > ptr + n) {
			at = &x->next;
			continue;
		}
		*at = x->next;
		if (mmap((void *)x->at, x->n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
			abort();
		drop_physical(x->memory);
		free(fake_count(x, MAPPINGS, -1));
		r = OK;
	}
	pthread_mutex_unlock(&big);
	return (told ? told : r);
}

CUresult cuMemSetAccess(CUdeviceptr ptr, size_t n, const CUmemAccessDesc *desc, size_t count)
{
	CUresult r = INVALID_VALUE;

	CALL(" %zu bytes at %#llx, device %d and %zu more, flags %d", n, ptr, desc->location.id, count - 1, desc->flags);
	pthread_mutex_lock(&big);
	for (struct mapping *x = mappings; x; x = x->next) {
		if (x->at < ptr || x->at + x->n > ptr + n)
			continue;
		for (size_t i = 0; i < count; ++i) {
			if (desc[i].flags == 3)
				x->devices |= 1u << desc[i].location.id;
			else
				x->devices &= ~(1u << desc[i].location.id);
		}
		mprotect((void *)x->at, x->n, x->devices ? PROT_READ | PROT_WRITE : PROT_NONE);
		r = OK;
	}
	pthread_mutex_unlock(&big);
	return (r);
}

/* Tells whether kernels of a device can use all of a range that lies in a single mapping or in registered memory. */
bool device_reaches(int device, uint64_t at, size_t n)
{
	bool yes = false;

	pthread_mutex_lock(&big);
	for (struct mapping *x = mappings; x && !yes; x = x->next)
		yes = at >= x->at && at + n <= x->at + x->n && x->devices >> device & 1;
	for (int i = 0; i < 64 && !yes; ++i)
		yes = registered[i].n && at >= registered[i].at && at + n <= registered[i].at + registered[i].n;
	pthread_mutex_unlock(&big);
	return (yes);
}

CUresult cuMemHostRegister_v2(void *p, size_t n, unsigned int flags)
{
	CALL(" %zu bytes at %p, flags %u", n, p, flags);
	pthread_mutex_lock(&big);
	for (int i = 0; i < 64; ++i) {
		if (registered[i].n)
			continue;
		registered[i].at = (uint64_t)p;
		registered[i].n = n;
		break;
	}
	fake_count(NULL, REGISTERED, 1);
	pthread_mutex_unlock(&big);
	return (OK);
}

CUresult cuMemHostUnregister(void *p)
{
	ENDING(" %p", p);
	pthread_mutex_lock(&big);
	for (int i = 0; i < 64; ++i)
		if (registered[i].n && registered[i].at == (uint64_t)p)
			registered[i].n = 0;
	fake_count(NULL, REGISTERED, -1);
	pthread_mutex_unlock(&big);
	return (told);
}

CUresult cuMemHostAlloc(void **p, size_t n, unsigned int flags)
{
	CALL(" %zu bytes, flags %u", n, flags);
	*p = fake_count(malloc(n), PINNED, 1);
	return (OK);
}

CUresult cuMemFreeHost(void *p)
{
	ENDING("");
	free(fake_count(p, PINNED, -1));
	return (told);
}
