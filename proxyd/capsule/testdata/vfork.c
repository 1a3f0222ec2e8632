// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* Calls vfork all the time, with children that take a while before they begin a program. */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int main(void)
{
	const struct timespec while_ = { .tv_nsec = 20 * 1000 * 1000 }, moment = { .tv_nsec = 1000 * 1000 };

	puts("ready");
	fflush(stdout);
	for (;;) {
		const pid_t child = vfork();

		if (child == 0) {
			nanosleep(&while_, NULL);
			execl("/bin/true", "true", (char *)NULL);
			_exit(1);
		}
		if (child < 0 || waitpid(child, NULL, 0) != child)
			return (1);
		nanosleep(&moment, NULL);
	}
}
