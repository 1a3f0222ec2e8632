/* SPDX-FileCopyrightText: 2026 The singularity-slurm authors */
/* SPDX-License-Identifier: Apache-2.0 */

/* Makes the descriptor or memory that its argument names, by the system call, and stays. Linked statically, so that no library
 * answers in the kernel's place. */
#include <linux/io_uring.h>
#include <linux/perf_event.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <string.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

/* measure counts this process's page faults, which any user may. */
static long measure(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE, .size = sizeof(attr), .config = PERF_COUNT_SW_PAGE_FAULTS,
		.exclude_kernel = 1, .exclude_hv = 1,
	};

	return (syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC));
}

/* attach has the segment of System V shared memory that all processes of the job can have by this key, and writes there. */
static long attach(void)
{
	const int id = shmget(815, 4096, IPC_CREAT | 0600);
	char *at = shmat(id, NULL, 0);

	if (at == (char *)-1)
		return (-1);
	*at = 1;
	return (0);
}

static long open_kind(const char *kind)
{
	struct io_uring_params params = { 0 };

	if (strcmp(kind, "io_uring") == 0)
		return (syscall(SYS_io_uring_setup, 4, &params));
	if (strcmp(kind, "perf") == 0)
		return (measure());
	if (strcmp(kind, "userfaultfd") == 0)
		return (syscall(SYS_userfaultfd, UFFD_USER_MODE_ONLY));
	if (strcmp(kind, "segment") == 0)
		return (attach());
	return (-1);
}

int main(int argc, char **argv)
{
	if (argc != 2 || open_kind(argv[1]) < 0) {
		perror(argv[0]);
		return (1);
	}
	puts("ready");
	fflush(stdout);
	for (;;)
		pause();
}
