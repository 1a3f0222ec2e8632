// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "srun.h"

#include <time.h>

/*
 * The signals that srun handles itself, and SIGTSTP. All other signals have the effect on this
 * process that they would have on srun; when this process dies of a signal, the runner outside ends
 * srun.
 */
static const int handled[] = {
	SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE, SIGALRM, SIGTERM, SIGCONT, SIGTSTP,
};

enum { N_HANDLED = sizeof(handled) / sizeof(handled[0]) };

static volatile sig_atomic_t came[N_HANDLED];
static sigset_t while_waiting;

static void on_signal(int sig)
{
	for (size_t i = 0; i < N_HANDLED; ++i) {
		if (handled[i] == sig)
			came[i] = 1;
	}
}

void take_signals(void)
{
	struct sigaction action = { .sa_handler = on_signal };
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < N_HANDLED; ++i)
		sigaddset(&set, handled[i]);
	action.sa_mask = set;
	sigprocmask(SIG_BLOCK, &set, &while_waiting);
	/*
	 * Also signals that the caller ignores, as a shell does for SIGINT in the
	 * background and nohup for SIGHUP: srun handles these as well.
	 */
	for (size_t i = 0; i < N_HANDLED; ++i) {
		sigaction(handled[i], &action, NULL);
		sigdelset(&while_waiting, handled[i]);
	}
}

void wake_at_resize(void)
{
	struct sigaction action = { .sa_handler = on_signal };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGWINCH);
	sigprocmask(SIG_BLOCK, &set, NULL);
	sigaction(SIGWINCH, &action, NULL);
	sigdelset(&while_waiting, SIGWINCH);
}

int take_signal(void)
{
	for (size_t i = 0; i < N_HANDLED; ++i) {
		if (came[i]) {
			came[i] = 0;
			return (handled[i]);
		}
	}

	return (0);
}

void put_back_signal(int sig)
{
	on_signal(sig);
}

bool ends_by_default(int sig)
{
	return (sig != SIGCONT && sig != SIGTSTP);
}

int await_events(struct pollfd *p, nfds_t n, int milliseconds)
{
	struct timespec limit = { .tv_sec = milliseconds / 1000, .tv_nsec = milliseconds % 1000 * 1000000L };

	/*
	 * Signals are unblocked only here: so no signal can come between the check for
	 * signals and the wait.
	 */
	return (ppoll(p, n, milliseconds < 0 ? NULL : &limit, &while_waiting));
}

long milliseconds_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);

	return (t.tv_sec * 1000 + t.tv_nsec / 1000000);
}
