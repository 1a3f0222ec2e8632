// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "warden.h"

#include "../terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * Settings of MPI libraries, unless the user has set the variable. By default they share memory
 * between the tasks of a node, or open network cards; neither can be captured.
 */
static const struct {
	const char *name, *value;
} defaults[] = {
	{ "UCX_TLS", "tcp,self" },
	{ "I_MPI_FABRICS", "ofi" },
};

/* The arguments for the exec of sing-pmix. */
static struct {
	char place[128];
	char path[PATH_MAX];
} pmix;

/* A number of the environment, or -1. */
static int number_of(const char *name, int max)
{
	const char *text = getenv(name);
	char *end;
	long n;

	if (!text || text[0] < '0' || text[0] > '9')
		return (-1);
	n = strtol(text, &end, 10);

	return (*end || n > max ? -1 : (int)n);
}

/* sing-pmix is beside this program, by the path with which Slurm has executed it: /proc does not have this process. */
static int find_pmix_server(const char *place)
{
	const char *slash = strrchr(program_invocation_name, '/');
	const int folder = slash ? (int)(slash - program_invocation_name) : -1;

	if (folder < 0 || snprintf(pmix.place, sizeof(pmix.place), "%s", place) >= (int)sizeof(pmix.place))
		return (-1);

	return (snprintf(pmix.path, sizeof(pmix.path), "%.*s/sing-pmix", folder, program_invocation_name) < PATH_MAX ? 0 : -1);
}

bool find_task(struct task *t, const char *name)
{
	const char *place_of_pmix = getenv(PMIX_VARIABLE);
	const char *place = place_of_pmix ? place_of_pmix : getenv(PMI_VARIABLE);
	const char *dot = strrchr(name, '.');
	const size_t n = dot ? (size_t)(dot - name) : strlen(name);

	*t = (struct task){
		.rank = number_of("SLURM_PROCID", PMI_MAX_RANKS),
		.size = number_of("SLURM_STEP_NUM_TASKS", PMI_MAX_RANKS),
		.pmix = place_of_pmix,
	};
	if (!place || n >= sizeof(t->step) || parse_place(&t->hub, place) || t->rank < 0 || t->rank >= t->size)
		return (false);
	if (t->pmix && find_pmix_server(place))
		return (false);
	memcpy(t->step, name, n);

	return (true);
}

bool asks_for_pmix(void)
{
	return (getenv(PMIX_VARIABLE));
}

void forget_places(void)
{
	unsetenv(PMI_VARIABLE);
	unsetenv(PMIX_VARIABLE);
	unsetenv(TERMINAL_VARIABLE);
}

static void set_number(const char *name, int n)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", n);
	setenv(name, text, 1);
}

static int tell_program(const struct task *t, int end)
{
	const int fd = fcntl(end, F_DUPFD, 3); /* stays open in the program */

	if (fd < 0)
		return (-1);
	set_number("PMI_FD", fd);
	set_number("PMI_RANK", t->rank);
	set_number("PMI_SIZE", t->size);
	setenv("PMI_JOBID", t->step, 1);
	for (size_t i = 0; i < sizeof(defaults) / sizeof(defaults[0]); ++i)
		setenv(defaults[i].name, defaults[i].value, 0);

	return (0);
}

/* Become the server, with no descriptor but its end of the socketpair. */
static void become_server(const struct task *t, int end)
{
	setsid();
	prctl(PR_SET_NAME, "sing-pmi");
	if (chdir("/"))
		_exit(1);
	if (end > 0)
		close_range(0, (unsigned int)end - 1, 0);
	close_range((unsigned int)end + 1, UINT_MAX, 0);
	serve_task(t, end);
}

/*
 * The server is forked twice, so that the steward becomes its parent: a program does not expect a child. It is
 * forked here and not by the steward because this process is in the program's cgroup by now: so the server is
 * frozen, captured and killed with the program.
 */
static int fork_server(const struct task *t, int end, void (*become)(const struct task *t, int end))
{
	static const struct timespec at_once;
	sigset_t of_children;
	int status = 1;
	const pid_t pid = fork();

	if (pid == 0) {
		const pid_t server = fork();

		if (server == 0)
			become(t, end);
		_exit(server < 0);
	}
	if (pid < 0)
		return (-1);
	while (waitpid(pid, &status, 0) < 0) {
		if (errno == ECHILD) { /* if SIGCHLD is ignored, there is no status */
			status = 0;
			break;
		}
	}
	/* Drop the pending SIGCHLD of the fork: the program must not get it. */
	sigemptyset(&of_children);
	sigaddset(&of_children, SIGCHLD);
	sigtimedwait(&of_children, NULL, &at_once);

	return (status == 0 ? 0 : -1);
}

/* --- PMIx --- */

/*
 * Become sing-pmix, which writes the task's environment to end. Until then it keeps standard error, for messages of
 * libraries. It runs without the shim, which is for programs of the user.
 */
static void become_pmix_server(const struct task *t, int end)
{
	char rank[16], size[16], step[PMI_NAME_SIZE], program[16];
	char *const argv[] = { pmix.path, rank, size, step, program, NULL };

	snprintf(rank, sizeof(rank), "%d", t->rank);
	snprintf(size, sizeof(size), "%d", t->size);
	snprintf(step, sizeof(step), "%s", t->step);
	snprintf(program, sizeof(program), "%d", (int)t->program);
	setsid();
	if (setenv(PMIX_VARIABLE, pmix.place, 1) || unsetenv("LD_PRELOAD") || chdir("/") || dup2(end, PMIX_ENVIRONMENT_FD) < 0)
		_exit(1);
	fcntl(PMIX_ENVIRONMENT_FD, F_SETFD, 0); /* clears FD_CLOEXEC if end was already this descriptor */
	close_range(PMIX_ENVIRONMENT_FD + 1, UINT_MAX, 0);
	execv(argv[0], argv);
	fprintf(stderr, "singularity: srun --mpi=pmix: %s: %s\n", argv[0], strerror(errno));
	_exit(1);
}

/* Put "NAME=VALUE" texts, each with its NUL, into the environment. The last must be empty. */
static int take_environment(char *text, size_t n)
{
	char *const last = text + n - 1;

	if (n == 0 || *last || (n > 1 && last[-1]))
		return (-1);
	for (; text < last; text += strlen(text) + 1) {
		if (!strchr(text, '=') || putenv(text)) /* putenv keeps the pointer, so text is never freed */
			return (-1);
	}

	return (0);
}

static int start_pmix_server(const struct task *t)
{
	struct buffer text = { 0 };
	ssize_t got = 0;
	int ends[2];
	int rv;

	if (pipe2(ends, O_CLOEXEC))
		return (-1);
	rv = fork_server(t, ends[1], become_pmix_server);
	close(ends[1]);
	while (rv == 0 && (got = read_into(&text, ends[0], 4096)) > 0)
		;
	close(ends[0]);
	if (rv || got < 0 || text.failed)
		return (-1);

	return (take_environment(text.bytes, text.n));
}

/* --- PMI-2 --- */

static int start_pmi_server(const struct task *t)
{
	int ends[2];
	int rv;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		return (-1);
	rv = fork_server(t, ends[1], become_server);
	if (rv == 0)
		rv = tell_program(t, ends[0]);
	close(ends[0]);
	close(ends[1]);

	return (rv);
}

int start_server(const struct task *t)
{
	struct task mine = *t;

	mine.program = getpid();

	return (t->pmix ? start_pmix_server(&mine) : start_pmi_server(&mine));
}
