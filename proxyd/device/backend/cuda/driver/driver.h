// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* The parts of the driver's calls that need C: finding the calls, and arguments that are pointers to pointers. */
#ifndef CUDA_DRIVER_H
#define CUDA_DRIVER_H

#include "gen_driver.h"

/* Opens a library and finds all calls. On error the library is closed, and why names what is missing. */
int sing_open(struct sing_driver *d, void **library, const char *path, char *why, size_t room);
void sing_close(void *library);

/* An attribute of a launch, as the driver's CUlaunchAttribute. */
struct sing_attribute {
	int id, pad;
	CUlaunchAttributeValue value;
};
_Static_assert(sizeof(struct sing_attribute) == 72, "attribute");

/* A kernel's launch: params lie at offsets in block. */
struct sing_launch {
	CUfunction function;
	unsigned int grid[3], block[3], shared;
	int cooperative;
	const struct sing_attribute *attributes;
	unsigned int k; /* of attributes */
	const unsigned char *params;
	const unsigned int *offsets;
	size_t n;
};

/* Of a single launch. */
enum { SING_MAX_ATTRIBUTES = 16 };

/* More parameters than 4096 bytes can hold are refused. */
enum { SING_MAX_PARAMS = 4096 };

CUresult sing_launch(const struct sing_driver *d, CUcontext in, const struct sing_launch *l, CUstream stream);
CUresult sing_kernel_node(const struct sing_driver *d, CUcontext in, CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t k, const struct sing_launch *l);

/* Gives a kernel node the launch's attributes. A cooperative launch cannot be a node. */
CUresult sing_kernel_node_attributes(const struct sing_driver *d, CUcontext in, CUgraphNode node, const struct sing_launch *l);

/* How many clusters of a launch run at once, and how large the largest can be. */
CUresult sing_active_clusters(const struct sing_driver *d, CUcontext in, int *n, const struct sing_launch *l);
CUresult sing_largest_cluster(const struct sing_driver *d, CUcontext in, int *n, const struct sing_launch *l);

/*
 * How a device's multiprocessors are grouped: a byte for each pair of them, in two orders. The driver's call has no public name;
 * a driver without it answers NOT_SUPPORTED.
 */
CUresult sing_groups(const struct sing_driver *d, CUcontext in, unsigned char *groups, unsigned char *order, size_t n);

/*
 * The options of the just-in-time compiler, and its output. The linker reads names and values until the link is
 * destroyed, so that all of this is in C's memory.
 */
struct sing_jit {
	unsigned int max_registers; /* 0: any */
	int verbose;
	char *info, *errors;
	size_t ninfo, nerrors;
	int names[6];
	void *values[6];
};

CUresult sing_load(const struct sing_driver *d, CUcontext in, CUmodule *module, const void *image, struct sing_jit *j, uint64_t owner);
CUresult sing_new_context(const struct sing_driver *d, CUcontext *context, CUdevice dev, uint64_t owner);
CUresult sing_link_create(const struct sing_driver *d, CUcontext in, CUlinkState *state, struct sing_jit *j);

CUmemAllocationProp sing_device_memory(CUdevice dev, int rdma);

/* The library with this function is the driver: see reserve.c. */
void sing_reserve_for(void *symbol);

/* Until the next call, addresses that the driver reserves in this thread are for that owner. 0: for no owner. */
void sing_reserve_owner(uint64_t owner);

/* An owner of contexts that only show where the driver would put things. */
#define SING_REHEARSAL UINT64_MAX

/* Places of owners: owners whose numbers differ by a multiple of this have the same place. */
#define SING_RESERVE_OWNERS 768

/* Tells whether no other owner has used an owner's place. */
int sing_reserve_alone(uint64_t owner);

/* Where an owner's place begins. */
uint64_t sing_reserve_base(uint64_t owner);

/* The owner's reservations, which are gone, will be made again from the beginning of its place. */
void sing_reserve_again(uint64_t owner);

/* The owner's contexts have ended, and it makes no more: its place is as if it had not been used. */
void sing_reserve_leave(uint64_t owner);

/* A context is gone: threads that had it have no context any more. */
void sing_forget_contexts(void);

/* Another library may have given this thread another context. */
void sing_forget_mine(void);

/* Makes a second mapping, at a free address, of shared memory that is mapped at p; and unmaps it. */
int sing_alias(void *p, size_t n, uint64_t at);
void sing_unalias(uint64_t at, size_t n);

static inline void *sing_at(uint64_t at)
{
	return ((void *)(uintptr_t)at);
}

#endif
