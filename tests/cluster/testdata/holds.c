/* SPDX-FileCopyrightText: 2026 The singularity-slurm authors */
/* SPDX-License-Identifier: Apache-2.0 */

/* Makes the descriptor or memory that its argument names, confines itself, or traces a child, by the system call, and stays. Linked statically, so
 * that no library answers in the kernel's place. */
#include <linux/io_uring.h>
#include <linux/landlock.h>
#include <linux/perf_event.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
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

/* confine has this process execute no files from here on. */
static long confine(void)
{
	const struct landlock_ruleset_attr attr = { .handled_access_fs = LANDLOCK_ACCESS_FS_EXECUTE };
	const int ruleset = syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);

	if (ruleset < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_landlock_restrict_self, ruleset, 0))
		return (-1);
	return (close(ruleset));
}

/* start_traced starts a child, and traces it, as strace does with a program that runs. */
static long start_traced(void)
{
	const pid_t child = fork();

	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	return (child < 0 ? -1 : ptrace(PTRACE_SEIZE, child, NULL, NULL));
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
	if (strcmp(kind, "landlock") == 0)
		return (confine());
	if (strcmp(kind, "tracer") == 0)
		return (start_traced());
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
