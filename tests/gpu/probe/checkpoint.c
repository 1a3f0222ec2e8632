// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* The driver's own checkpoint: of a child that holds device memory, which says afterwards whether all is there. */
#include "probe.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

/* Holds bytes on the device, says so, and looks at them again when told to. */
static void hold_memory(size_t n, int say, int told)
{
	unsigned int got = 0;
	CUdeviceptr p;
	char c;

	begin();
	OK(cuMemAlloc(&p, n));
	OK(cuMemsetD32(p, 0x600df00d, n / 4));
	OK(cuCtxSynchronize());
	if (write(say, "h", 1) != 1 || read(told, &c, 1) != 1)
		_exit(1);
	OK(cuMemcpyDtoH(&got, p + n - 4, 4));
	_exit(got == 0x600df00d ? 0 : 1);
}

/* A call that drivers before 12.8 do not have. */
static CUresult call_on(const char *name, int pid)
{
	CUresult (*call)(int, const void *);
	CUresult r;
	double t;
	char text[64];

	*(void **)&call = dlsym(RTLD_DEFAULT, name);
	if (call == NULL) {
		snprintf(text, sizeof(text), "the driver has no %s", name);
		cannot(text);
	}
	t = now_us();
	r = call(pid, NULL);
	if (r != CUDA_SUCCESS)
		cannot_call(name, r);
	answer(name, (now_us() - t) / 1000, "ms");
	return (r);
}

void checkpoint(void)
{
	const size_t n = 1u << 30;
	int said[2], tell[2], status;
	pid_t child;
	char c;

	if (pipe(said) != 0 || pipe(tell) != 0)
		cannot("no pipe");
	child = fork();
	if (child == 0) {
		close(said[0]);
		close(tell[1]);
		hold_memory(n, said[1], tell[0]);
	}
	close(said[1]);
	close(tell[0]);
	if (child < 0 || read(said[0], &c, 1) != 1)
		cannot("the process that is to be captured has failed");
	OK(cuInit(0));
	answer("bytes", (double)(n >> 20), "MiB");
	call_on("cuCheckpointProcessLock", child);
	call_on("cuCheckpointProcessCheckpoint", child);
	call_on("cuCheckpointProcessRestore", child);
	call_on("cuCheckpointProcessUnlock", child);
	if (write(tell[1], "c", 1) != 1 || waitpid(child, &status, 0) < 0)
		cannot("the process that was captured is gone");
	answer_text("the memory is as it was", status == 0 ? "yes" : "no");
}
