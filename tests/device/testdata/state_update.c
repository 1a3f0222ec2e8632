// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// An executable graph that is updated by a new capture for each step; the graph of the capture is destroyed.
// limit: 60s

#include "check.h"

enum { WORDS = 64, STEPS = 3000 };

static CUdeviceptr a;

static CUgraph capture_step(CUstream s, unsigned int step)
{
	CUgraph g;

	OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuMemsetD32Async(a + 4 * (step % WORDS), step, 1, s));
	OK(cuMemcpyDtoDAsync(a + 4 * WORDS + 4 * (step * 7 % WORDS), a + 4 * (step % WORDS), 4, s));
	OK(cuStreamEndCapture(s, &g));
	return (g);
}

int main(void)
{
	unsigned int words[2 * WORDS], hash;
	CUgraphExecUpdateResultInfo info;
	CUgraphExec x;
	CUgraph g;
	CUstream s;

	(void)open_context();
	OK(cuMemAlloc(&a, sizeof(words)));
	OK(cuMemsetD8(a, 0, sizeof(words)));
	OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	g = capture_step(s, 0);
	OK(cuGraphInstantiate(&x, g, 0));
	OK(cuGraphDestroy(g));
	for (unsigned int step = 1; step <= STEPS; ++step) {
		OK(cuGraphLaunch(x, s));
		g = capture_step(s, step);
		OK(cuGraphExecUpdate(x, g, &info));
		OK(cuGraphDestroy(g));
		OK(cuGraphLaunch(x, s));
		if (step % 100 != 0)
			continue;
		OK(cuStreamSynchronize(s));
		OK(cuMemcpyDtoH(words, a, sizeof(words)));
		hash = 2166136261u;
		for (unsigned int i = 0; i < 2 * WORDS; ++i)
			hash = (hash ^ words[i]) * 16777619u;
		printf("step %u: %08x\n", step, hash);
	}
	OK(cuGraphExecDestroy(x));
	return (0);
}
