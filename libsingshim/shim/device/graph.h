// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * Graphs. The server has them, with the parameters of all nodes; nearly all calls are made from the
 * table. Written by hand are the calls with arguments that only the program's process can read: the
 * pointers to a kernel's parameters, functions of the program, and structs with parts that depend
 * on each other.
 */
#ifndef SING_DEVICE_GRAPH_H
#define SING_DEVICE_GRAPH_H

#include "gen_abi.h"

#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

/* Where a node goes: into a graph, or, to change what the node does, into its graph or an executable graph. */
struct sing_graph_place {
	CUgraphNode *made; /* add a node: */
	CUgraph graph;
	const CUgraphNode *deps;
	size_t n;

	CUgraphNode node; /* change one: */
	CUgraphExec exec; /* NULL: in its graph */
};

/* CUDA_KERNEL_NODE_PARAMS. Its first version ends before kernel. */
struct sing_kernel_params {
	CUfunction function;
	unsigned int grid[3], block[3], shared;
	void **params, **extra;
	CUkernel kernel;
	CUcontext context;
};
_Static_assert(offsetof(struct sing_kernel_params, params) == 40 && offsetof(struct sing_kernel_params, kernel) == 56 &&
		       sizeof(struct sing_kernel_params) == 72, "as the driver has it");

struct sing_host_params {
	void *function, *user;
};

struct sing_alloc_params {
	CUmemPoolProps props;
	const CUmemAccessDesc *access;
	size_t n, size;
	CUdeviceptr ptr;
};
_Static_assert(sizeof(struct sing_alloc_params) == 120, "as the driver has it");

CUresult sing_graph_kernel(const struct sing_graph_place *to, const struct sing_kernel_params *p);
CUresult sing_graph_host(const struct sing_graph_place *to, const struct sing_host_params *p);
CUresult sing_graph_alloc(const struct sing_graph_place *to, struct sing_alloc_params *p);

/*
 * Memory that belongs to a node, which the driver hands out: at least n bytes, zero, in the place of the node's
 * memory before. The memory is kept until the program ends, because the shim is not told when a graph and its
 * nodes end. NULL: there is no memory.
 */
void *sing_graph_keep(CUgraphNode node, size_t n);

/* CUDA_ERROR_NOT_SUPPORTED for a kind of dependency that is not the plain kind. */
CUresult sing_graph_edges(const CUgraphEdgeData *edges, size_t n);

#pragma GCC visibility pop

#endif
