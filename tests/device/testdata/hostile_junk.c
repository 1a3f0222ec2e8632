// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0
// devices: 2
// limit: 60s
// expect: all calls were answered

/*
 * Processes that call any function of the driver with arguments that make no sense: handles of something else, sizes near 2^64, flags that
 * do not exist. Each call must return a result that CUDA has, no process may die, and a process that came before all of them
 * finds its memory unchanged.
 */
#define GEN_CUDA_NO_RENAMES
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { PROCESSES = 4, CALLS = 1500, MADE = 64, MEMORY = 65536 };

struct junk {
	const char *name;
	uint32_t state;
	uint64_t made[MADE]; /* handles that calls have made, or the earlier bytes */
	unsigned next;
	uint64_t slots[8];
	unsigned used;
	unsigned long long count;
	uint64_t memory[MEMORY / 8], zeros[MEMORY / 8];
};

static uint32_t random_word(struct junk *j)
{
	j->state ^= j->state << 13;
	j->state ^= j->state >> 17;
	j->state ^= j->state << 5;
	return (j->state);
}

static uint64_t junk_number(struct junk *j)
{
	static const uint64_t odd[] = {
		0, 1, 2, 3, 7, 8, 255, 4096, 65537, 1 << 20, 1ull << 31, UINT32_MAX, 1ull << 32, 1ull << 41, INT64_MAX, 1ull << 63, UINT64_MAX - 4095, UINT64_MAX,
	};

	return (odd[random_word(j) % (sizeof(odd) / sizeof(odd[0]))]);
}

static uint64_t junk_small(struct junk *j)
{
	return (random_word(j) % 17);
}

/* A handle that was made by some call, or a number. */
static uint64_t junk_handle(struct junk *j)
{
	uint32_t r = random_word(j);

	return (r % 8 != 0 ? j->made[r / 8 % MADE] : r % 16 == 0 ? junk_number(j) : (uint64_t)r << 8);
}

static void *junk_memory(struct junk *j)
{
	for (unsigned i = 0; i < 64; ++i)
		j->memory[i] = random_word(j) % 2 ? junk_handle(j) : junk_number(j);
	return (j->memory);
}

static void *junk_zeros(struct junk *j)
{
	memset(j->zeros, 0, 512);
	return (j->zeros);
}

static void *junk_count(struct junk *j)
{
	j->count = junk_small(j);
	return (&j->count);
}

static void *junk_made(struct junk *j)
{
	return (&j->slots[j->used++ % 8]);
}

static void junk_function(void)
{
}

#include "gen_junk.h"

static const char image[] = PTX(
	".visible .global .u32 g;\n"
	".visible .entry add(.param .u64 p)\n"
	"{\n"
	".reg .u64 %p; .reg .u32 %x;\n"
	"ld.param.u64 %p, [p]; ld.global.u32 %x, [%p]; add.u32 %x, %x, 1; st.global.u32 [%p], %x;\n"
	"ret;\n"
	"}\n");

static void be_hostile(uint32_t seed)
{
	static struct junk j;
	CUcontext ctx = open_context();
	CUmodule module;
	const char *name;

	j.state = seed * 0x9e3779b1u + 1;
	OK(cuModuleLoadData(&module, image));
	j.made[0] = (uintptr_t)ctx;
	j.made[1] = (uintptr_t)module;
	OK(cuMemAlloc_v2((CUdeviceptr *)&j.made[2], 4096));
	OK(cuStreamCreate((CUstream *)&j.made[3], 0));
	OK(cuEventCreate((CUevent *)&j.made[4], 0));
	OK(cuModuleGetFunction((CUfunction *)&j.made[5], module, "add"));
	j.next = 6;
	for (int i = 0; i < CALLS; ++i) {
		uint32_t which = random_word(&j) % JUNK_CALLS;
		CUresult r;

		j.used = 0;
		r = junk_call(&j, which);
		if (getenv("JUNK_SAYS") != NULL)
			fprintf(stderr, "%u.%d: %s: %d\n", seed, i, j.name, r);
		if (cuGetErrorName(r, &name) != CUDA_SUCCESS) {
			fprintf(stderr, "%s returned %d, which CUDA does not have\n", j.name, r);
			_exit(1);
		}
		if (r == CUDA_ERROR_UNKNOWN) {
			fprintf(stderr, "%u.%d: after %s the server is gone, or does not want us any more\n", seed, i, j.name);
			_exit(1);
		}
		for (unsigned k = 0; r == CUDA_SUCCESS && k < j.used; ++k)
			j.made[j.next++ % MADE] = j.slots[k % 8];
		/* Without a context, few calls go on. */
		if (i % 8 == 0)
			cuCtxSetCurrent(ctx);
	}
	_exit(0);
}

/* A child that waits until all other children are done, with memory that they must not reach. */
static void be_honest(int wait_for)
{
	static uint32_t before[1024], after[1024];
	CUdeviceptr p;
	char c;

	open_context();
	OK(cuMemAlloc_v2(&p, sizeof(before)));
	for (unsigned i = 0; i < 1024; ++i)
		before[i] = i * 2654435761u;
	OK(cuMemcpyHtoD_v2(p, before, sizeof(before)));
	HOLDS(read(wait_for, &c, 1) == 0);
	OK(cuMemcpyDtoH_v2(after, p, sizeof(after)));
	HOLDS(memcmp(before, after, sizeof(before)) == 0);
	OK(cuMemFree_v2(p));
	_exit(0);
}

int main(int argc, char **argv)
{
	pid_t honest, hostile[PROCESSES];
	int ends[2], status, bad = 0;

	if (argc > 1)
		be_hostile((uint32_t)atoi(argv[1]));
	HOLDS(pipe(ends) == 0);
	honest = fork();
	if (honest == 0) {
		close(ends[1]);
		be_honest(ends[0]);
	}
	close(ends[0]);
	for (unsigned i = 0; i < PROCESSES; ++i) {
		hostile[i] = fork();
		if (hostile[i] == 0) {
			close(ends[1]);
			be_hostile(i + 1);
		}
	}
	for (unsigned i = 0; i < PROCESSES; ++i) {
		HOLDS(waitpid(hostile[i], &status, 0) == hostile[i]);
		if (status != 0)
			fprintf(stderr, "process %u ended with status %x\n", i + 1, status);
		bad |= status;
	}
	close(ends[1]);
	HOLDS(waitpid(honest, &status, 0) == honest);
	HOLDS(status == 0 && bad == 0);
	printf("all calls were answered\n");
	return (0);
}
