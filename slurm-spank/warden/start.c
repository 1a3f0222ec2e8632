// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "warden.h"

#include "../pmi/pmi.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 *	warden ── go-between ── steward ── program
 *	                        steward ── sing-terminal ── program	with a terminal (../terminal.h)
 *
 * The go-between is the first of these processes in the capsule's PID namespace; when it ends, the
 * capsule's init becomes the steward's parent. So no process of the program has slurmstepd among
 * its ancestors, and slurmstepd signals no process of the program.
 */

/*
 * The path of the program: name as found in PATH, or name itself. The rule is slurmstepd's. Unlike
 * execvp, this does not run a file without an interpreter by sh.
 */
static char *find_program(char buf[PATH_MAX], char *name)
{
	const char *path = getenv("PATH");
	struct stat st;

	if (!path || strchr(name, '/'))
		return (name);
	for (;;) {
		const size_t n = strcspn(path, ":");
		const int len = snprintf(buf, PATH_MAX, "%.*s%s%s", (int)n, path, n ? "/" : "", name);

		if (len < PATH_MAX && stat(buf, &st) == 0 && S_ISREG(st.st_mode) && access(buf, X_OK) == 0)
			return (buf);
		if (!path[n])
			return (name);
		path += n + 1;
	}
}

/*
 * The program, from the fork to execve. Signals are blocked until the last moment, so
 * that an early signal meets the program's own dispositions.
 */
static _Noreturn void become_program(int gate, const struct launch *l)
{
	char buf[PATH_MAX];
	ssize_t n;
	char byte;
	int why;

	setsid();
	do {
		n = read(gate, &byte, 1);
	} while (n < 0 && errno == EINTR);
	if (n != 1)
		_exit(EXIT_NOT_STARTED); /* the warden has ended: the program must not run */
	if (l->terminal && take_terminal(l->terminal))
		_exit(EXIT_NOT_STARTED);
	if (l->mpi && start_server(l->mpi))
		_exit(EXIT_NOT_STARTED);
	l->argv[0] = find_program(buf, l->argv[0]);
	sigprocmask(SIG_SETMASK, l->mask, NULL);
	execv(l->argv[0], l->argv);

	/* The message is slurmstepd's; the exit codes are a shell's, which tell a script more than errno does. */
	why = errno;
	fprintf(stderr, "slurmstepd: error: execve(): %s: %s\n", l->argv[0], strerror(why));
	_exit(why == ENOENT || why == ENOTDIR ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE);
}

/*
 * The steward, from the fork to its loop. sock is shared with the program, which reads from
 * it; here it carries the PIDs of both.
 */
static _Noreturn void become_steward(int sock, const struct launch *l)
{
	struct sing_message m = message_of(SING_START, NULL);
	int self;

	if (setsid() < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1))
		_exit(EXIT_NOT_STARTED);
	self = pidfd_open(getpid(), 0);
	if (self < 0)
		_exit(EXIT_NOT_STARTED);
	m.first = fork();
	if (m.first < 0)
		_exit(EXIT_NOT_STARTED);
	if (m.first == 0)
		become_program(sock, l);

	/*
	 * Changed only after the fork, for the program inherits dispositions and folder. With SIGCHLD ignored, the
	 * program's status would be lost.
	 */
	signal(SIGCHLD, SIG_DFL);
	if (chdir("/") || send_message(sock, &m, &self, 1))
		_exit(EXIT_NOT_STARTED);
	close_range(0, UINT_MAX, 0);
	steward(m.first);
}

static _Noreturn void go_between(int sock, const struct launch *l)
{
	const pid_t pid = fork();

	if (pid == 0)
		become_steward(sock, l);
	_exit(pid < 0 ? EXIT_NOT_STARTED : 0);
}

int start_program(struct program *p, const struct launch *l)
{
	struct sing_message m;
	int pair[2] = { -1, -1 };
	pid_t pid;
	int rv = -1;

	*p = (struct program){ .pidfd = -1, .gate = -1 };
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) {
		fprintf(stderr, "singularity: socketpair: %s\n", strerror(errno));
		goto out;
	}
	pid = fork();
	if (pid < 0) {
		fprintf(stderr, "singularity: fork into the capsule: %s\n", strerror(errno));
		goto out;
	}
	if (pid == 0) {
		close(pair[0]);
		go_between(pair[1], l);
	}
	close(pair[1]); /* else there is no end of file when the steward fails */
	pair[1] = -1;
	if (receive_message(pair[0], &m, &p->pidfd) || p->pidfd < 0) {
		fprintf(stderr, "singularity: the program cannot be started: %s\n", strerror(errno));
		goto out;
	}
	/* Until the go-between has ended, the steward is not init's child. */
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	p->first = m.first;
	p->gate = pair[0];
	pair[0] = -1;

	rv = 0;

out:
	for (size_t i = 0; i < 2; ++i) {
		if (pair[i] >= 0)
			close(pair[i]);
	}

	return (rv);
}

int release_program(struct program *p)
{
	const ssize_t n = send(p->gate, "", 1, MSG_NOSIGNAL);

	close(p->gate);
	p->gate = -1;

	return (n == 1 ? 0 : -1);
}
