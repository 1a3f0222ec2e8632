// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "stub.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static char said[4096];

/* --- refusing --- */

static void as_user(void)
{
	task_as_user();
}

/* The wait status of a task after the answers of proxyd. */
static int end_of_task(const struct answer *answers, size_t n, const char *argument)
{
	proxyd_start(answers, n);
	load(S_CTX_REMOTE, socket_arg, "warden=/bin/sh", "retry=0", argument, NULL);
	give("singularity", NULL);
	CHECK(task_as_root() == 0);

	return (in_child(as_user, said, sizeof(said)));
}

static void test_finished(void)
{
	static const int statuses[] = { 0, 3 << 8, 255 << 8, SIGKILL, SIGTERM, SIGSEGV, SIGABRT | 0x80 };
	struct answer answers[COUNT(statuses)];
	char packets[COUNT(statuses)][64];

	for (size_t i = 0; i < COUNT(statuses); ++i) {
		const int n = snprintf(packets[i], sizeof(packets[i]), "ok%cmode=finished%cstatus=%d", 0, 0, statuses[i]);

		answers[i] = (struct answer){ .bytes = packets[i], .n = (size_t)n + 1 };
	}
	proxyd_start(answers, COUNT(answers));
	load(S_CTX_REMOTE, socket_arg, "warden=/bin/sh", NULL);
	give("singularity", NULL);
	for (size_t i = 0; i < COUNT(statuses); ++i) {
		int got;

		CHECK(task_as_root() == 0);
		got = in_child(as_user, said, sizeof(said));
		if (got != (statuses[i] & ~0x80) || said[0])
			errx(1, "ended with %#x, want %#x; said %s", got, statuses[i], said);
	}
}

static void is_refused(int status, const char *why)
{
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 125)
		errx(1, "status %#x, want exit code 125; said %s", status, said);
	CONTAINS(said, "singularity: ");
	CONTAINS(said, why);
	CHECK(slurm.n_prefix == 0);
}

static void test_refused(void)
{
	static const struct {
		struct answer answer;
		const char *why;
	} rows[] = {
		{ ANSWER("no\0reason=the checkpoint 3 cannot be restored: no such chunk"), "singularity: the checkpoint 3 cannot be restored: no such chunk\n" },
		{ ANSWER("no\0errno=13"), "refuses this task and gives no reason" },
		{ ANSWER("ok\0mode=fresh\0name=batch"), "proxyd sent 0 namespaces" },
		{ ANSWER("ok\0mode=fresh\0name=batch", FIVE_FILES), "namespace 1 of 5 cannot be joined: Invalid argument" },
		{ ANSWER("ok\0mode=fresh\0name=../x", FIVE_FILES), "gave the task no name: ../x" },
		{ ANSWER("ok\0mode=fresh\0name=", FIVE_FILES), "gave the task no name" },
		{ ANSWER("ok\0mode=restore", FIVE_FILES), "gave the task no name" },
		{ ANSWER("ok\0mode=finished"), "no status with which this task ended" },
		{ ANSWER("ok\0mode=finished\0status=1x"), "no status with which this task ended" },
		{ ANSWER("ok\0mode=finished\0status=-1"), "no status with which this task ended" },
		{ ANSWER("ok\0mode=finished\0status=127"), "no status with which this task ended" }, /* stopped */
	};

	for (size_t i = 0; i < COUNT(rows); ++i) {
		char row[32];

		snprintf(row, sizeof(row), "%zu", i);
		snprintf(socket_path, sizeof(socket_path), "/tmp/spank-stub.%d.%zu", (int)getpid(), i);
		if (fork() == 0) {
			snprintf(socket_arg, sizeof(socket_arg), "socket=%s", socket_path);
			is_refused(end_of_task(&rows[i].answer, 1, "without_proxyd=run"), rows[i].why);
			exit(0);
		} else {
			int status;

			wait(&status);
			if (status)
				errx(1, "the answer in row %zu is not refused as expected", i);
		}
		unlink(socket_path);
	}
}

/*
 * Without a proxyd, or with an answer that cannot be understood, the administrator's setting decides whether the
 * task runs.
 */
static void without_proxyd(void)
{
	static const struct {
		struct answer answer;
		const char *why;
	} rows[] = {
		{ { .bytes = NULL }, "proxyd ended before it answered" },
		{ ANSWER("hello"), "of another version than this plugin: its answer cannot be understood" },
		{ ANSWER("ok\0a=1\0a=2"), "its answer cannot be understood" },
		{ { .bytes = "ok\0mode=plain", .n = 12 }, "its answer cannot be understood" },
		{ ANSWER("ok\0mode=fresh\0name=batch", NINE_FILES), "its answer cannot be understood" },
		{ ANSWER("no\0errno=93\0reason=I speak version 2"), "of another version than this plugin: I speak version 2" },
		{ ANSWER("ok\0mode=sideways"), "of another version than this plugin: mode sideways" },
	};

	for (size_t i = 0; i < 2 * COUNT(rows); ++i) {
		const bool run = i % 2;
		int status;

		snprintf(socket_path, sizeof(socket_path), "/tmp/spank-stub.%d.%zu", (int)getpid(), i);
		snprintf(socket_arg, sizeof(socket_arg), "socket=%s", socket_path);
		if (fork() == 0) {
			status = end_of_task(&rows[i / 2].answer, 1, run ? "without_proxyd=run" : "without_proxyd=refuse");
			if (!run)
				is_refused(status, rows[i / 2].why);
			CHECK(!run || status == 0);
			CONTAINS(said, run ? "singularity: this job runs unprotected: " : "singularity: ");
			CONTAINS(said, rows[i / 2].why);
			exit(0);
		}
		wait(&status);
		unlink(socket_path);
		if (status)
			errx(1, "the answer in row %zu has the wrong effect with run_unprotected %d", i / 2, run);
	}
}

static void no_socket(void)
{
	load(S_CTX_REMOTE, socket_arg, "warden=/bin/sh", "retry=0", NULL);
	give("singularity", NULL);
	CHECK(task_as_root() == 0);
	is_refused(in_child(as_user, said, sizeof(said)), "proxyd is not there: /tmp/spank-stub.");
	CONTAINS(said, ": No such file or directory\n");
}

static void bad_arguments(void)
{
	load(S_CTX_REMOTE, "warden=/bin/sh", "colour=red", NULL);
	give("singularity", NULL);
	CHECK(task_as_root() == 0 && sockets == 0);
	is_refused(in_child(as_user, said, sizeof(said)), "singularity: plugstack.conf: colour=red: accepted are socket=");
}

/*
 * An option that no sbatch has seen: REST. Slurm goes on when a callback fails here, so the
 * callback does not fail.
 */
static void bad_option(void)
{
	load(S_CTX_REMOTE, socket_arg, "warden=/bin/sh", NULL);
	CHECK(give("singularity-gpus", "8-4") == 0 && !slurm.said[0]);
	CHECK(task_as_root() == 0 && sockets == 0);
	is_refused(in_child(as_user, said, sizeof(said)), "singularity: --singularity-gpus=8-4: the minimum is above the maximum; accepted:");
}

static void no_warden(void)
{
	load(S_CTX_REMOTE, socket_arg, "warden=/no/such", NULL);
	give("singularity", NULL);
	CHECK(task_as_root() == 0 && sockets == 0);
	is_refused(in_child(as_user, said, sizeof(said)), "the warden is not installed on this node");
}

/* --- while the task waits --- */

/* proxyd dies at the request and is started again: the plugin repeats the request. */
static void asks_again(void)
{
	static const struct answer answers[] = { { .bytes = NULL }, { .bytes = NULL }, ANSWER("ok\0mode=plain") };
	static struct message first, second;

	proxyd_start(answers, COUNT(answers));
	load(S_CTX_REMOTE, socket_arg, "warden=/bin/sh", "retry=20", NULL);
	give("singularity", NULL);
	CHECK(task_as_root() == 0);
	CHECK(in_child(as_user, said, sizeof(said)) == 0 && !said[0]);
	proxyd_got(&first);
	proxyd_got(&second);
	CHECK(first.used == second.used && memcmp(first.bytes, second.bytes, first.used) == 0);
}

/* proxyd is just being started. */
static void comes_later(void)
{
	static const struct answer plain = ANSWER("ok\0mode=plain");

	const pid_t parent = getpid();

	if (fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(0);
		nanosleep(&(struct timespec){ .tv_nsec = 300000000 }, NULL);
		proxyd_start(&plain, 1);
		pause();
	}
	load(S_CTX_REMOTE, socket_arg, "warden=/bin/sh", "retry=20", NULL);
	give("singularity", NULL);
	CHECK(task_as_root() == 0 && sockets > 1);
	CHECK(in_child(as_user, said, sizeof(said)) == 0 && !said[0]);
}

static void ignore_signal(int sig)
{
	(void)sig;
}

static void wait_in_vain(void)
{
	static const struct answer hang = { .flags = HANG };
	sigset_t blocked;

	/* With signals blocked, as in Slurm 22.05, and with handlers, as in later versions. */
	if (getenv("STUB_BLOCKED")) {
		sigfillset(&blocked);
		sigprocmask(SIG_BLOCK, &blocked, NULL);
	} else {
		signal(SIGTERM, ignore_signal);
		signal(SIGUSR1, ignore_signal);
	}
	proxyd_start(&hang, 1);
	load(S_CTX_REMOTE, socket_arg, "warden=/bin/sh", NULL);
	give("singularity", NULL);
	slurm.step = STEP_OF_BATCH;
	if (fork() == 0) {
		static struct message m;
		const pid_t parent = getppid();

		proxyd_got(&m); /* the task waits now */
		kill(parent, SIGUSR1);
		kill(parent, SIGTERM);
		_exit(0);
	}
	task_as_root();
}

/* A task of a step. proxyd answers its request when it has got the message about SIGTERM. */
static void wait_for_answer(const struct answer *a)
{
	static struct message m;

	signal(SIGTERM, ignore_signal);
	proxyd_start(a, 1);
	load(S_CTX_REMOTE, socket_arg, "warden=/bin/sh", NULL);
	give("singularity", NULL);
	slurm.argc = 1;
	slurm.argv[0] = "program";
	if (fork() == 0) {
		const pid_t parent = getppid();

		proxyd_got(&m); /* the task waits now */
		kill(parent, SIGTERM);
		_exit(0);
	}
	task_as_root();
	proxyd_got(&m);
	CHECK(strcmp(message_verb(&m), SING_TERMINATE) == 0);
	task_as_user();
}

static void end_when_terminated(void)
{
	static const struct answer no = ANSWER("no\0reason=the task was ended", AFTER_TERMINATE);

	wait_for_answer(&no);
}

static void run_when_terminated(void)
{
	static const struct answer fresh = ANSWER("ok\0mode=fresh\0name=s0-1", (NAMESPACES | AFTER_TERMINATE));

	wait_for_answer(&fresh);
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 11, 0)
	for (int i = 0; i < slurm.n_prefix; ++i) {
		if (strcmp(slurm.prefix[i], "--terminated") == 0)
			_exit(0);
	}
	_exit(1);
#else
	_exit(strstr(job_getenv("SINGULARITY_SLURM_WARDEN"), "--terminated") ? 0 : 1);
#endif
}

/* The task ends without a message: Slurm itself tells the user that the job was ended. */
static void step_terminated(void)
{
	CHECK(in_child(end_when_terminated, said, sizeof(said)) == SIGTERM && !said[0]);
	unlink(socket_path);
	CHECK(in_child(run_when_terminated, said, sizeof(said)) == 0 && !said[0]);
}

static void test_cancelled(void)
{
	for (int blocked = 0; blocked < 2; ++blocked) {
		int status;

		if (blocked)
			setenv("STUB_BLOCKED", "1", 1);
		status = in_child(wait_in_vain, said, sizeof(said));
		if (status != SIGTERM)
			errx(1, "blocked %d: status %#x, want SIGTERM; said %s", blocked, status, said);
		unlink(socket_path);
	}
}

/*
 * Signals that the process ignores have no effect while the task waits, and afterwards all dispositions are as
 * before.
 */
static void other_signals(void)
{
	static const struct answer plain = ANSWER("ok\0mode=plain");
	struct sigaction action;
	sigset_t mask;

	signal(SIGTERM, ignore_signal);
	signal(SIGHUP, SIG_IGN);
	sigemptyset(&mask);
	sigaddset(&mask, SIGUSR1);
	sigprocmask(SIG_BLOCK, &mask, NULL);
	raise(SIGUSR1);
	proxyd_start(&plain, 1);
	load(S_CTX_REMOTE, socket_arg, "warden=/bin/sh", NULL);
	give("singularity", NULL);
	CHECK(task_as_root() == 0 && task_as_user() == 0);
	sigpending(&mask);
	CHECK(!sigismember(&mask, SIGUSR1));
	CHECK(sigaction(SIGTERM, NULL, &action) == 0 && action.sa_handler == ignore_signal);
	CHECK(sigaction(SIGHUP, NULL, &action) == 0 && action.sa_handler == SIG_IGN);
	sigprocmask(SIG_BLOCK, NULL, &mask);
	CHECK(sigismember(&mask, SIGUSR1) && !sigismember(&mask, SIGTERM) && !sigismember(&mask, SIGUSR2));
}

const struct test refusal_tests[] = {
	{ "finished before", test_finished },
	{ "task refused", test_refused },
	{ "task without proxyd", without_proxyd },
	{ "task without a socket", no_socket },
	{ "task with bad arguments", bad_arguments },
	{ "task with a bad option", bad_option },
	{ "task without a warden", no_warden },
	{ "proxyd asked again", asks_again },
	{ "proxyd comes later", comes_later },
	{ "cancelled while waiting", test_cancelled },
	{ "step terminated while waiting", step_terminated },
	{ "other signals while waiting", other_signals },
	{ NULL, NULL },
};
