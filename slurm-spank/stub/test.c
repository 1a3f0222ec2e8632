// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "stub.h"

#include <err.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SKIPPED = 77, TEST_SECONDS = 30 };

void check(bool holds, const char *what, const char *file, int line)
{
	if (!holds)
		errx(1, "%s:%d: check failed: %s (the plugin said: %s)", file, line, what, slurm.said);
}

void contains(const char *text, const char *part, const char *file, int line)
{
	if (!text || !strstr(text, part))
		errx(1, "%s:%d: want %s in: %s", file, line, part, text ? text : "(nothing)");
}

void skip(const char *why)
{
	printf("SKIP: %s\n", why);
	fflush(stdout);
	_exit(SKIPPED);
}

int in_child(void (*f)(void), char *said, size_t size)
{
	size_t used = 0;
	ssize_t n;
	int pipefd[2];
	int status;
	pid_t pid;

	if (pipe(pipefd))
		err(1, "pipe");
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* without this a failing test would hang */
		dup2(pipefd[1], STDERR_FILENO);
		close(pipefd[0]);
		close(pipefd[1]);
		f();
		_exit(0);
	}
	close(pipefd[1]);
	while (used + 1 < size && (n = read(pipefd[0], said + used, size - used - 1)) > 0)
		used += (size_t)n;
	said[used] = '\0';
	close(pipefd[0]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;

	return (status);
}

static int run_test(const struct test *t)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		alarm(TEST_SECONDS);
		snprintf(socket_path, sizeof(socket_path), "/tmp/spank-stub.%d", (int)getpid());
		snprintf(socket_arg, sizeof(socket_arg), "socket=%s", socket_path);
		unlink(socket_path);
		t->run();
		exit(0);
	}
	waitpid(pid, &status, 0);
	snprintf(socket_path, sizeof(socket_path), "/tmp/spank-stub.%d", (int)pid);
	unlink(socket_path);
	if (status == 0) {
		printf("ok    %s\n", t->name);
		return (0);
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED) {
		printf("skip  %s\n", t->name);
		return (0);
	}
	printf("FAIL  %s (status %#x)\n", t->name, status);

	return (1);
}

int main(int argc, char **argv)
{
	const struct test *const all[] = { value_tests, message_tests, option_tests, submit_tests, task_tests, pyxis_tests, refusal_tests };
	int failed = 0, n = 0;

	if (getenv("STUB_SUBMIT"))
		return (submit());
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); ++i) {
		for (const struct test *t = all[i]; t->name; ++t) {
			if (argc > 1 && !strstr(t->name, argv[1]))
				continue;
			failed += run_test(t);
			++n;
		}
	}
	printf("%d tests, %d failed\n", n, failed);

	return (failed || n == 0);
}
