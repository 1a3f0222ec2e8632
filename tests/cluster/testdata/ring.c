/* SPDX-FileCopyrightText: 2026 The singularity-slurm authors */
/* SPDX-License-Identifier: Apache-2.0 */

/* Has an io_uring of its own, made by the system call. Linked statically, so that no library answers in the kernel's place. */
#include <linux/io_uring.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(void)
{
	struct io_uring_params params = { 0 };

	if (syscall(SYS_io_uring_setup, 4, &params) < 0) {
		perror("io_uring_setup");
		return (1);
	}
	puts("ready");
	fflush(stdout);
	for (;;)
		pause();
}
