// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0
// devices: 3
// expect: 20 steps
// rung: splice

/* Ranks that make the same updates and wait for each other outside of the device: for a file that another rank writes
   when its update is done. So no update may wait until the other ranks have come to theirs. A single rank is killed in the
   middle of an update; the rest goes on. Each sees a single GPU, so all have the same addresses. */
#include "ranks.h"

#include <stdint.h>

enum { STEPS = 20, LAST = 14, WORDS = 4096 };

static const char image[] = PTX(
	".visible .entry update(.param .u64 p, .param .u32 v)\n"
	"{\n"
	".reg .u32 %i, %t, %b, %d, %v; .reg .u64 %p, %o;\n"
	"mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; mov.u32 %d, %ntid.x; mad.lo.u32 %i, %b, %d, %t;\n"
	"mul.wide.u32 %o, %i, 4; ld.param.u64 %p, [p]; add.u64 %p, %p, %o;\n"
	"ld.param.u32 %v, [v]; ld.global.u32 %i, [%p];\n"
	"mad.lo.u32 %i, %i, %v, %v; mad.lo.u32 %i, %i, %v, %v; mad.lo.u32 %i, %i, %v, %v; mad.lo.u32 %i, %i, %v, %v;\n"
	"st.global.u32 [%p], %i;\n"
	"ret;\n"
	"}\n");

/* The order in which ranks make an update: each waits for the rank before. */
static const int before[] = { 2, 0, -1 };

static char folder[] = "/tmp/ranks_wait.XXXXXX";

static const char *done_file(char *path, size_t n, int rank, int step)
{
	snprintf(path, n, "%s/%d.%d", folder, rank, step);
	return (path);
}

static void await_step(int rank, int step)
{
	char path[64];

	if (rank == 1 && step > LAST)
		return;
	while (access(done_file(path, sizeof(path), rank, step), F_OK) != 0)
		usleep(200);
}

static void run_rank(struct rank *r)
{
	CUmodule module;
	CUfunction update;
	char visible[2] = { (char)('0' + r->rank), 0 }, path[64];
	uint32_t want = 5, got[WORDS];
	CUdeviceptr weights;

	HOLDS(setenv("CUDA_VISIBLE_DEVICES", visible, 1) == 0);
	open_device(r, 0);
	OK(cuModuleLoadData(&module, image));
	OK(cuModuleGetFunction(&update, module, "update"));
	OK(cuMemAlloc(&weights, sizeof(got)));
	OK(cuMemsetD32Async(weights, want, WORDS, r->stream));
	for (int step = 0; step < STEPS; ++step) {
		unsigned int v = (unsigned int)step + 3;
		void *params[] = { &weights, &v };
		FILE *f;

		if (before[r->rank] >= 0)
			await_step(before[r->rank], step);
		OK(cuLaunchKernel(update, WORDS / 128, 1, 1, 128, 1, 1, 0, r->stream, params, NULL));
		if (r->rank == 1 && step == LAST)
			kill(getpid(), SIGKILL);
		OK(cuMemcpyDtoHAsync(got, weights, sizeof(got), r->stream));
		OK(cuStreamSynchronize(r->stream));
		for (int i = 0; i < 4; ++i)
			want = want * v + v;
		for (int i = 0; i < WORDS; ++i)
			HOLDS(got[i] == want);
		f = fopen(done_file(path, sizeof(path), r->rank, step), "w");
		HOLDS(f != NULL && fclose(f) == 0);
	}
	if (r->rank == 0)
		printf("%d steps\n", STEPS);
}

int main(void)
{
	char remove[64];

	HOLDS(mkdtemp(folder) != NULL);
	as_processes(3, run_rank);
	snprintf(remove, sizeof(remove), "rm -r %s", folder);
	HOLDS(system(remove) == 0);
	return (0);
}
