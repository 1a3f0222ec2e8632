// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0
// expect: done
// cflags: -D_GNU_SOURCE

/* Processes that share a device: each has its own memory, at the same addresses; a process is killed in the middle. */
#include "check.h"

#include <signal.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 1 << 16, ROUNDS = 30, PROCESSES = 3 };

static CUdeviceptr use_device(int number)
{
	static uint32_t back[N];
	CUdeviceptr p;
	CUstream s;

	open_context();
	OK(cuMemAlloc(&p, sizeof(back)));
	OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	for (uint32_t round = 0; round < ROUNDS; ++round) {
		const uint32_t mine = (uint32_t)number << 16 | round;

		OK(cuMemsetD32Async(p, mine, N, s));
		OK(cuMemcpyDtoHAsync(back, p, sizeof(back), s));
		OK(cuStreamSynchronize(s));
		for (int i = 0; i < N; ++i)
			HOLDS(back[i] == mine);
	}
	return p;
}

/* Wait for ever, as far as the device is concerned. */
static void hang_device(int tell)
{
	CUdeviceptr p;
	CUstream s;

	open_context();
	OK(cuMemAlloc(&p, 4096));
	OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	OK(cuStreamWaitValue32(s, p, 1, CU_STREAM_WAIT_VALUE_EQ));
	OK(cuMemsetD8Async(p, 1, 4096, s));
	HOLDS(write(tell, "x", 1) == 1);
	OK(cuStreamSynchronize(s));
}

int main(void)
{
	int pipes[PROCESSES][2], tell[2], status;
	CUdeviceptr where[PROCESSES];
	pid_t hanging, pids[PROCESSES];
	char c;

	HOLDS(pipe(tell) == 0);
	hanging = fork();
	HOLDS(hanging >= 0);
	if (hanging == 0) {
		hang_device(tell[1]);
		_exit(1);
	}
	HOLDS(read(tell[0], &c, 1) == 1);
	for (int i = 0; i < PROCESSES; ++i) {
		HOLDS(pipe(pipes[i]) == 0);
		pids[i] = fork();
		HOLDS(pids[i] >= 0);
		if (pids[i] == 0) {
			const CUdeviceptr p = use_device(i + 1);

			HOLDS(write(pipes[i][1], &p, sizeof(p)) == sizeof(p));
			exit(0);
		}
	}
	HOLDS(kill(hanging, SIGKILL) == 0);
	HOLDS(waitpid(hanging, &status, 0) == hanging && WIFSIGNALED(status));
	for (int i = 0; i < PROCESSES; ++i) {
		HOLDS(waitpid(pids[i], &status, 0) == pids[i] && status == 0);
		HOLDS(read(pipes[i][0], &where[i], sizeof(where[i])) == sizeof(where[i]));
		HOLDS(where[i] == where[0]);
	}
	use_device(9); /* no process is left, and the parent may be a process of the device, too */
	puts("done");
	return (0);
}
