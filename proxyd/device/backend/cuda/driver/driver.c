// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "driver.h"

static const struct {
	const char *name;
	size_t at;
	int optional;
} calls[] = {
#define CALL(name, optional) { #name, offsetof(struct sing_driver, name), optional },
	SING_DRIVER_CALLS(CALL)
};

int sing_open(struct sing_driver *d, void **library, const char *path, char *why, size_t room)
{
	void *found, *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	memset(d, 0, sizeof(*d));
	if (!lib) {
		snprintf(why, room, "%s", dlerror());
		return (-1);
	}
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); ++i) {
		found = dlsym(lib, calls[i].name);
		if (!found && !calls[i].optional) {
			snprintf(why, room, "%s has no %s: it is too old", path, calls[i].name);
			dlclose(lib);
			return (-1);
		}
		memcpy((char *)d + calls[i].at, &found, sizeof(found));
	}
	sing_reserve_for((void *)d->cuInit);
	*library = lib;
	return (0);
}

void sing_close(void *library)
{
	dlclose(library);
}

/* Sets the context of a thread. A thread of a Go program serves many goroutines, so each call names its context. */
static _Atomic unsigned int epoch;
static __thread unsigned int seen;
static __thread CUcontext now;

void sing_forget_contexts(void)
{
	atomic_fetch_add(&epoch, 1);
}

void sing_forget_mine(void)
{
	now = NULL;
}

CUresult sing_enter(const struct sing_driver *d, CUcontext context)
{
	unsigned int e = atomic_load(&epoch);
	CUresult r;

	if (!context || (context == now && seen == e))
		return (0);
	r = d->cuCtxSetCurrent(context);
	now = r ? NULL : context;
	seen = e;
	return (r);
}

/* The parameters' addresses, as the driver wants them. */
static void spread_params(const struct sing_launch *l, void **params)
{
	for (size_t i = 0; i < l->n; ++i)
		params[i] = (void *)(l->params + l->offsets[i]);
}

/* CUlaunchConfig, as the driver has it. */
struct launch_config {
	unsigned int grid[3], block[3], shared;
	CUstream stream;
	struct sing_attribute *attributes;
	unsigned int k;
};
_Static_assert(sizeof(struct launch_config) == 56, "launch config");
_Static_assert(offsetof(struct launch_config, stream) == 32, "launch config");

enum { ATTRIBUTE_COOPERATIVE = 2 };

/* The launch as the driver takes launches with attributes; to has room for one more than the launch has. */
static struct launch_config launch_config_of(const struct sing_launch *l, CUstream stream, struct sing_attribute *to)
{
	struct launch_config c = { .shared = l->shared, .stream = stream, .attributes = to, .k = l->k };

	memcpy(c.grid, l->grid, sizeof(c.grid));
	memcpy(c.block, l->block, sizeof(c.block));
	if (l->k)
		memcpy(to, l->attributes, l->k * sizeof(*to));
	if (l->cooperative)
		to[c.k++] = (struct sing_attribute){ .id = ATTRIBUTE_COOPERATIVE, .value = { { 1 } } };
	return (c);
}

CUresult sing_active_clusters(const struct sing_driver *d, CUcontext in, int *n, const struct sing_launch *l)
{
	struct sing_attribute attributes[SING_MAX_ATTRIBUTES + 1];
	struct launch_config c = launch_config_of(l, NULL, attributes);

	return (sing_cuOccupancyMaxActiveClusters(d, in, n, l->function, &c));
}

CUresult sing_largest_cluster(const struct sing_driver *d, CUcontext in, int *n, const struct sing_launch *l)
{
	struct sing_attribute attributes[SING_MAX_ATTRIBUTES + 1];
	struct launch_config c = launch_config_of(l, NULL, attributes);

	return (sing_cuOccupancyMaxPotentialClusterSize(d, in, n, l->function, &c));
}

CUresult sing_launch(const struct sing_driver *d, CUcontext in, const struct sing_launch *l, CUstream stream)
{
	void *params[l->n + 1];

	spread_params(l, params);
	if (l->k) {
		struct sing_attribute attributes[SING_MAX_ATTRIBUTES + 1];
		struct launch_config c = launch_config_of(l, stream, attributes);

		return (sing_cuLaunchKernelEx(d, in, &c, l->function, params, NULL));
	}
	if (l->cooperative)
		return (sing_cuLaunchCooperativeKernel(d, in, l->function, l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1],
						       l->block[2], l->shared, stream, params));
	return (sing_cuLaunchKernel(d, in, l->function, l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1], l->block[2],
				    l->shared, stream, params, NULL));
}

CUresult sing_groups(const struct sing_driver *d, CUcontext in, unsigned char *groups, unsigned char *order, size_t n)
{
	static const CUuuid id = { { 0x17, 0x34, 0xdc, 0x26, 0x80, 0x0d, 0x47, 0x45, 0x87, 0x26, 0xc0, 0xf1, 0xe7, 0xdd, 0x8b, 0xca } };
	enum { LISTS = 4, FREE = 13, INVALID_VALUE = 1, NOT_SUPPORTED = 801 };
	void **table = NULL;
	unsigned char *g = NULL, *o = NULL;
	CUresult r = sing_cuGetExportTable(d, in, (void **)&table, &id);

	if (r == INVALID_VALUE || (!r && (!table || (uintptr_t)table[0] <= FREE * sizeof(void *))))
		return (NOT_SUPPORTED);
	if (r)
		return (r);
	r = ((CUresult(*)(unsigned char **, unsigned char **))table[LISTS])(&g, &o);
	if (r)
		return (r);
	memcpy(groups, g, n);
	memcpy(order, o, n);
	((void (*)(unsigned char *, unsigned char *))table[FREE])(g, o);
	return (0);
}

/*
 * CUDA_KERNEL_NODE_PARAMS of the second version. In the first one, which every driver with graphs has, the last two are missing:
 * NULL is no kernel, but the function, and the current context.
 */
struct kernel_node {
	CUfunction function;
	unsigned int grid[3], block[3], shared;
	void **params, **extra, *kernel, *context;
};
_Static_assert(sizeof(struct kernel_node) == 72, "kernel node");
_Static_assert(offsetof(struct kernel_node, params) == 40, "kernel node");

CUresult sing_kernel_node(const struct sing_driver *d, CUcontext in, CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t k, const struct sing_launch *l)
{
	void *params[l->n + 1];
	struct kernel_node p = { .function = l->function, .shared = l->shared, .params = params };

	spread_params(l, params);
	memcpy(p.grid, l->grid, sizeof(p.grid));
	memcpy(p.block, l->block, sizeof(p.block));
	if (!d->cuGraphAddKernelNode)
		return (sing_cuGraphAddKernelNode_v2(d, in, node, graph, deps, k, &p));
	return (sing_cuGraphAddKernelNode(d, in, node, graph, deps, k, &p));
}

CUresult sing_kernel_node_attributes(const struct sing_driver *d, CUcontext in, CUgraphNode node, const struct sing_launch *l)
{
	CUresult r = 0;

	for (unsigned int i = 0; i < l->k && !r; ++i)
		r = sing_cuGraphKernelNodeSetAttribute(d, in, node, l->attributes[i].id, &l->attributes[i].value);
	return (r);
}

enum { JIT_MAX_REGISTERS = 0, JIT_INFO = 3, JIT_INFO_SIZE = 4, JIT_ERROR = 5, JIT_ERROR_SIZE = 6, JIT_VERBOSE = 12 };

static unsigned int fill_jit_options(struct sing_jit *j)
{
	unsigned int n = 0;

	j->names[n] = JIT_INFO, j->values[n++] = j->info;
	j->names[n] = JIT_INFO_SIZE, j->values[n++] = (void *)j->ninfo;
	j->names[n] = JIT_ERROR, j->values[n++] = j->errors;
	j->names[n] = JIT_ERROR_SIZE, j->values[n++] = (void *)j->nerrors;
	if (j->max_registers)
		j->names[n] = JIT_MAX_REGISTERS, j->values[n++] = (void *)(uintptr_t)j->max_registers;
	if (j->verbose)
		j->names[n] = JIT_VERBOSE, j->values[n++] = (void *)(uintptr_t)1;
	return (n);
}

CUresult sing_load(const struct sing_driver *d, CUcontext in, CUmodule *module, const void *image, struct sing_jit *j, uint64_t owner)
{
	const unsigned int n = fill_jit_options(j);
	CUresult r;

	sing_reserve_owner(owner);
	r = sing_cuModuleLoadDataEx(d, in, module, (void *)image, n, j->names, j->values);
	sing_reserve_owner(0);
	return (r);
}

CUresult sing_new_context(const struct sing_driver *d, CUcontext *context, CUdevice dev, uint64_t owner)
{
	CUresult r;

	sing_reserve_owner(owner);
	/* Without parameters the newer call makes the same contexts. */
	r = d->cuCtxCreate_v2 ? d->cuCtxCreate_v2(context, 0, dev) : sing_cuCtxCreate_v4(d, NULL, context, NULL, 0, dev);
	sing_reserve_owner(0);
	return (r);
}

CUresult sing_link_create(const struct sing_driver *d, CUcontext in, CUlinkState *state, struct sing_jit *j)
{
	const unsigned int n = fill_jit_options(j);

	return (sing_cuLinkCreate_v2(d, in, n, j->names, j->values, state));
}

CUmemAllocationProp sing_device_memory(CUdevice dev, int rdma)
{
	/* Pinned memory of the device. Network cards may reach the memory, where they can: that must be asked for here. */
	enum { PINNED = 1, DEVICE = 1 };

	return ((CUmemAllocationProp){ .type = PINNED, .location = { .type = DEVICE, .id = dev }, .gpuDirectRDMACapable = (unsigned char)rdma });
}

int sing_alias(void *p, size_t n, uint64_t at)
{
	void *to = (void *)(uintptr_t)at, *got = mmap(to, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (got == MAP_FAILED)
		return (-1);
	/* An old size of 0 leaves the old mapping where it is; the kernel does that for shared memory only. */
	if (got == to && mremap(p, 0, n, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to)
		return (0);
	munmap(got, n);
	return (-1);
}

void sing_unalias(uint64_t at, size_t n)
{
	munmap((void *)(uintptr_t)at, n);
}
