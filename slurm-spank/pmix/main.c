// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "pmix.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static int parse_number(int *number, const char *text, long max)
{
	char *end;
	const long n = strtol(text, &end, 10);

	if (text[0] < '0' || text[0] > '9' || *end || n > max)
		return (-1);
	*number = (int)n;

	return (0);
}

static int parse_task(struct task *t, char **argv)
{
	const char *place = getenv(PMIX_VARIABLE);

	*t = (struct task){ 0 };
	if (!place || parse_place(&t->hub, place) || parse_number(&t->rank, argv[1], PMI_MAX_RANKS) ||
	    parse_number(&t->size, argv[2], PMI_MAX_RANKS) || t->rank >= t->size || strlen(argv[3]) >= sizeof(t->step) ||
	    !argv[3][0] || parse_number(&t->program, argv[4], INT_MAX))
		return (-1);
	snprintf(t->step, sizeof(t->step), "%s", argv[3]);
	unsetenv(PMIX_VARIABLE);

	return (0);
}

/*
 * Close this process's copies of the task's files: as long as this process held a pipe, its
 * reader would not see the end.
 */
static int let_go(void)
{
	const int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0)
		return (-1);
	for (int fd = 0; fd <= 2; ++fd)
		dup2(null, fd);
	close(null);

	return (close(PMIX_ENVIRONMENT_FD));
}

int main(int argc, char **argv)
{
	static struct task t; /* the upcalls keep a pointer to t */
	static struct layout layout; /* the library may keep pointers to the names in it */

	if (argc == 2 && strcmp(argv[1], "--check") == 0)
		return (load_library() ? 1 : 0);
	if (argc != 5 || parse_task(&t, argv)) {
		fprintf(stderr, "singularity: sing-pmix is started by the tasks of srun --mpi=pmix\n");
		return (2);
	}
	prctl(PR_SET_NAME, "sing-pmix");
	if (reach_hub(&t)) {
		fprintf(stderr, "singularity: srun --mpi=pmix: srun cannot be reached: %s\n", strerror(errno));
		return (1);
	}
	if (load_library() || exchange_layout(&layout, &t) || begin_job(&t, &layout, upcalls_for(&t)) || let_go()) {
		abort_step(); /* the other tasks would wait for this one */
		return (1);
	}
	serve_hub(answer_question);
}
