// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "signals.h"

#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

static const int fatal[FATAL_SIGNALS] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT };

int signals_accept_fatal(struct saved_signals *before, bool keep_sigterm)
{
	const struct sigaction end = { .sa_handler = SIG_DFL };
	sigset_t wait, sigterm;

	prctl(PR_GET_NAME, before->name);
	prctl(PR_SET_NAME, "sing-waiting");
	sigfillset(&wait);
	sigprocmask(SIG_BLOCK, &wait, &before->mask);
	for (size_t i = 0; i < FATAL_SIGNALS; ++i) {
		sigaction(fatal[i], NULL, &before->actions[i]);
		if (before->actions[i].sa_handler != SIG_IGN)
			sigaction(fatal[i], &end, NULL);
		if (!keep_sigterm || fatal[i] != SIGTERM)
			sigdelset(&wait, fatal[i]);
	}
	sigprocmask(SIG_SETMASK, &wait, NULL);
	if (!keep_sigterm)
		return (-1);
	sigemptyset(&sigterm);
	sigaddset(&sigterm, SIGTERM);

	return (signalfd(-1, &sigterm, SFD_CLOEXEC));
}

bool signals_restore(const struct saved_signals *before)
{
	const struct sigaction ignore = { .sa_handler = SIG_IGN };
	struct sigaction action;
	sigset_t set;
	bool terminated;

	sigpending(&set);
	terminated = sigismember(&set, SIGTERM) == 1;
	for (int sig = 1; sig < NSIG; ++sig) {
		if (sigismember(&set, sig) != 1 || sigaction(sig, NULL, &action))
			continue;
		/* Ignoring a pending signal drops it. */
		sigaction(sig, &ignore, NULL);
		sigaction(sig, &action, NULL);
	}
	sigfillset(&set);
	sigprocmask(SIG_SETMASK, &set, NULL);
	for (size_t i = 0; i < FATAL_SIGNALS; ++i)
		sigaction(fatal[i], &before->actions[i], NULL);
	sigprocmask(SIG_SETMASK, &before->mask, NULL);
	prctl(PR_SET_NAME, before->name);

	return (terminated);
}

_Noreturn void end_like(int status)
{
	const struct rlimit none = { 0, 0 };
	sigset_t set;

	if (WIFEXITED(status))
		_exit(WEXITSTATUS(status));
	setrlimit(RLIMIT_CORE, &none); /* a core file would be of this process */
	signal(WTERMSIG(status), SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, WTERMSIG(status));
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	raise(WTERMSIG(status));
	_exit(128 + WTERMSIG(status)); /* a signal that ends no process */
}
