// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "srun.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/*
 * This program is also the scontrol that programs of a capsule see. It tells proxyd when a program
 * of the job is about to have Slurm requeue a job, and becomes the real scontrol: a job that asked
 * for its own requeue saves its state by itself, and ends by itself.
 *
 *	sing-srun, as scontrol                               proxyd
 *	──────────────────────                               ──────
 *	socket: "requeue", pipe ───────────────────────────► notes which program asked
 *	closes the socket
 *	pipe: end of file                               ◄──  closes its end
 *	execve(SING_SCONTROL)
 */

/*
 * How long to wait for proxyd, in milliseconds: the job's own request is carried out even
 * if proxyd does not answer.
 */
enum { NOTED_WITHIN = 2000 };

bool called_as_scontrol(void)
{
	static const char name[] = "/scontrol";
	char path[PATH_MAX];
	const ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	if (n < (ssize_t)sizeof(name) - 1)
		return (false);
	path[n] = '\0';

	return (strcmp(path + n - (sizeof(name) - 1), name) == 0);
}

/*
 * Whether an argument is scontrol's "requeue" or "requeuehold", or a short form that
 * scontrol accepts.
 */
static bool is_requeue(const char *word)
{
	const size_t n = strlen(word);

	return (n >= 3 && n <= strlen("requeuehold") && strncasecmp(word, "requeuehold", n) == 0);
}

int run_scontrol(int argc, char **argv, char **envp)
{
	for (int i = 1; i < argc; ++i) {
		int noted;

		if (!is_requeue(argv[i]))
			continue;
		noted = ask_noted();
		if (noted >= 0) {
			struct pollfd p = { .fd = noted, .events = POLLIN };

			poll(&p, 1, NOTED_WITHIN);
			close(noted);
		}
		break;
	}
	execve(SING_SCONTROL, argv, envp);
	fprintf(stderr, "singularity: scontrol: %s: %s\n", SING_SCONTROL, strerror(errno));

	return (CODE_REFUSED);
}
