// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* cuGraphDebugDotPrint. The server has the text, the program's process the file system. */
#include "graph.h"

#include <stdio.h>
#include <stdlib.h>

static CUresult save_text(const char *path, const void *text, size_t n)
{
	FILE *f = fopen(path, "we");
	size_t did;

	if (f == NULL)
		return CUDA_ERROR_OPERATING_SYSTEM;
	did = fwrite(text, 1, n, f);
	return fclose(f) == 0 && did == n ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

CUresult sing_cuGraphDebugDotPrint(CUgraph graph, const char *path, unsigned int flags)
{
	size_t n = 0, got;
	void *text;
	CUresult r;

	if (path == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	r = sing_send_graph_dot(0, graph, flags, NULL, &n);
	if (r != CUDA_SUCCESS)
		return r;
	text = malloc(n + 1);
	if (text == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	got = n;
	r = sing_send_graph_dot(0, graph, flags, text, &got);
	/*
	 * The text may have grown since its length was asked for: then the end is cut off.
	 */
	if (r == CUDA_SUCCESS)
		r = save_text(path, text, got < n ? got : n);
	free(text);
	return r;
}
SING_PUBLIC(cuGraphDebugDotPrint);
