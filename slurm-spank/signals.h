// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * Signals to a task that waits for its capsule. There is no program yet, but the job may be
 * cancelled. slurmstepd has blocked signals up to 22.05 and drops what came meanwhile;
 * later versions let signals through to slurmstepd's own handlers. And proctrack/linuxproc
 * signals no process that is named slurmstepd, not even with SIGKILL: the job could not be
 * ended, and its node would be drained for that.
 */
#ifndef SING_SIGNALS_H
#define SING_SIGNALS_H

#include <signal.h>

enum { FATAL_SIGNALS = 4 };

struct attention {
	char name[16]; /* of the process */
	sigset_t mask;
	struct sigaction actions[FATAL_SIGNALS];
};

/* From now on SIGTERM, SIGINT, SIGHUP and SIGQUIT end this process; all others wait. */
void signals_end_this(struct attention *before);

/* Put things back. Signals that came meanwhile are forgotten. */
void signals_as_before(const struct attention *before);

#endif
