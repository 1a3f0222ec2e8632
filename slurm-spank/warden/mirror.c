// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "warden.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

_Noreturn void end_like(int status)
{
	static const struct rlimit none = { 0, 0 };
	sigset_t set;
	int sig;

	if (WIFEXITED(status))
		_exit(WEXITSTATUS(status));

	sig = WIFSIGNALED(status) ? WTERMSIG(status) : SIGKILL;

	/*
	 * The program has written its core file; a core file of this process would only
	 * take its name.
	 */
	setrlimit(RLIMIT_CORE, &none);
	prctl(PR_SET_DUMPABLE, 0);
	signal(sig, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, sig);
	raise(sig); /* the signal is blocked, and pending until the next line */
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	_exit(128 + sig);
}
