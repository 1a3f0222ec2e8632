// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Processes that use the device, fork, and execute another program, which uses it again, while their children, which have not attached,
// still hold what they inherited. Others fork before they use the device.
// limit: 60s

#include "check.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 5000, STEPS = 100, ROUNDS = 8 };

static unsigned int compute_words(unsigned int seed)
{
	static unsigned int words[N];
	unsigned int h = 2166136261u;
	CUdeviceptr p;

	open_context();
	OK(cuMemAlloc(&p, sizeof(words)));
	for (unsigned int step = 0; step < STEPS; ++step) {
		OK(cuMemsetD32(p, seed + step, N));
		OK(cuMemcpyDtoH(words, p, sizeof(words)));
		for (int i = 0; i < N; ++i)
			h = (h ^ words[i]) * 16777619u;
	}
	return (h);
}

/* A child that has its parent's end of everything, for as long as a process has the other end of a pipe. */
static void hold_parent(void)
{
	int ends[2], n;
	char c;

	HOLDS(pipe(ends) == 0);
	if (fork() == 0) {
		close(ends[1]);
		WANT(CUDA_ERROR_NOT_INITIALIZED, cuInit(0));
		HOLDS(read(ends[0], &c, 1) == 0);
		WANT(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetCount(&n));
		_exit(0);
	}
	close(ends[0]);
}

static void print_round(const char *what, unsigned int round, unsigned int h)
{
	printf("%s %u: %08x\n", what, round, h);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	int status;
	char number[16];

	if (argc > 1) {
		const unsigned int round = (unsigned int)atoi(argv[1]);

		print_round("after exec", round, compute_words(round + 1000));
		return (0);
	}
	for (unsigned int round = 0; round < ROUNDS; ++round) {
		const pid_t child = fork();

		HOLDS(child >= 0);
		if (child == 0) {
			print_round("before exec", round, compute_words(round));
			hold_parent();
			snprintf(number, sizeof(number), "%u", round);
			execl("/proc/self/exe", argv[0], number, (char *)NULL);
			_exit(1);
		}
		HOLDS(waitpid(child, &status, 0) == child && status == 0);
	}
	print_round("the parent", 0, compute_words(77));
	return (0);
}
