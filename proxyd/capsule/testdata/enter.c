// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * Does the work of slurmstepd and the plugin before a task's execve: join the namespaces of
 * the descriptors from 3 up, become the user, run the command.
 *
 * usage: enter [-b SIGNAL]… [-i SIGNAL]… NAMESPACES UID GID GROUP,GROUP… COMMAND…
 *   -b blocks a signal, -i ignores it. With namespaces, the host's /proc is descriptor 700.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FIRST_FD = 3, PROC_FD = 700, MAX_GROUPS = 32 };

static void join_namespaces(int n)
{
	char cwd[PATH_MAX];
	const int proc = open("/proc", O_PATH | O_DIRECTORY);

	if (!getcwd(cwd, sizeof(cwd)) || proc < 0 || dup2(proc, PROC_FD) < 0)
		err(1, "enter");
	close(proc);
	for (int fd = FIRST_FD; fd < FIRST_FD + n; ++fd) {
		if (setns(fd, 0))
			err(1, "setns %d", fd);
		close(fd);
	}
	if (chdir(cwd)) /* setns has left us in the root */
		err(1, "%s", cwd);
}

int main(int argc, char **argv)
{
	gid_t groups[MAX_GROUPS];
	size_t n = 0;
	sigset_t blocked;
	int c;

	sigemptyset(&blocked);
	while ((c = getopt(argc, argv, "+b:i:")) != -1) {
		if (c == 'b')
			sigaddset(&blocked, atoi(optarg));
		else if (c == 'i')
			signal(atoi(optarg), SIG_IGN);
		else
			return (1);
	}
	argv += optind;
	if (argc - optind < 5)
		errx(1, "too few arguments");
	if (atoi(argv[0]) > 0)
		join_namespaces(atoi(argv[0]));
	for (char *s = strtok(argv[3], ","); s && n < MAX_GROUPS; s = strtok(NULL, ","))
		groups[n++] = (gid_t)atoi(s);
	if (setgroups(n, groups) || setgid((gid_t)atoi(argv[2])) || setuid((uid_t)atoi(argv[1])))
		err(1, "become %s", argv[1]);
	sigprocmask(SIG_SETMASK, &blocked, NULL);
	execvp(argv[4], argv + 4);
	err(127, "%s", argv[4]);
}
