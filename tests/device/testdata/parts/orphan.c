// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * A program that calls until a call fails, and prints the error. Without an argument the program comes back with another pipe
 * than before, as after CRIU: the descriptor is the same, and has no reader.
 */
#include "../check.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* The end of the pipe by which the process sees whether its device server lives. */
static int find_pipe(void)
{
	enum { FIRST = 700, LAST = 1024 };
	struct stat st;

	for (int fd = FIRST; fd < LAST; ++fd)
		if (fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode))
			return (fd);
	return (-1);
}

/* As CRIU leaves the pipe. */
static void change_pipe(void)
{
	int other[2], fd;
	char c;

	HOLDS(read(0, &c, 1) == 1);
	fd = find_pipe();
	HOLDS(fd >= 0 && pipe(other) == 0 && dup3(other[1], fd, O_CLOEXEC) == fd);
	close(other[0]);
	close(other[1]);
	puts("has another pipe");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	CUresult r;

	(void)argv;
	open_context();
	OK(cuCtxSynchronize());
	puts("attached");
	fflush(stdout);
	if (argc == 1)
		change_pipe();
	OK(cuCtxSynchronize());
	puts("served");
	fflush(stdout);
	do
		r = cuCtxSynchronize();
	while (r == CUDA_SUCCESS);
	puts(name_of(r));
	return (0);
}
