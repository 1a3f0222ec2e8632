// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "warden.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * A process of the capsule per program: its parent, and by PR_SET_CHILD_SUBREAPER the new
 * parent of every process of the program that loses its own parent. So all descendants of the
 * steward are the program, daemons included: a single tree to signal, to kill and to capture.
 * Without the steward, the capsule's init would become the parent of orphans. Their program would
 * not be known, and CRIU, which captures a single tree, would leave them out.
 *
 * The steward holds no descriptor and its whole state is this stack, so that the steward is
 * captured and restored with the program.
 */

/* The path by which a process finds its own children. */
static const char children_path[] = "/proc/thread-self/children";

/*
 * Send SIGKILL to every child. Returns the number of children that this user may kill; 0 also when
 * the list of children cannot be read.
 */
static int kill_children(void)
{
	FILE *f;
	int killed = 0;
	pid_t pid;

	f = fopen(children_path, "re");
	if (!f)
		return (0);
	while (fscanf(f, "%d", &pid) == 1) {
		if (kill(pid, SIGKILL) == 0)
			++killed;
	}
	fclose(f);

	return (killed);
}

/*
 * The program has ended: kill all processes that it has left behind, as Slurm does at the end of a
 * step. Children of a killed child become children of this process, hence the loop.
 */
static void end_leftovers(void)
{
	while (waitpid(-1, NULL, WNOHANG) >= 0) {
		/*
		 * The rest belong to another user (sudo): only the end of the capsule ends
		 * such processes.
		 */
		if (kill_children() == 0)
			return;
		while (waitpid(-1, NULL, 0) < 0 && errno == EINTR)
			;
	}
}

_Noreturn void steward(pid_t first)
{
	sigset_t all;
	siginfo_t info;
	int status;
	pid_t pid;

	prctl(PR_SET_NAME, "sing-steward");
	sigfillset(&all);
	for (;;) {
		const int sig = sigwaitinfo(&all, &info);

		if (sig < 0)
			continue;
		if (sig != SIGCHLD) {
			kill(first, sig);
			continue;
		}
		while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
			if (pid != first)
				continue;
			end_leftovers();
			end_like(status);
		}
	}
}
