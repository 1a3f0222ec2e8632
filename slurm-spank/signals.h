// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * Signals to a task that waits for its capsule. There is no program yet, but the job may be
 * cancelled. slurmstepd has blocked signals up to 22.05 and drops those that came meanwhile; later
 * versions let signals through to slurmstepd's own handlers. And proctrack/linuxproc signals no
 * process that is named slurmstepd, not even with SIGKILL: the job could not be ended, and its node
 * would be drained for that.
 *
 * Slurm also sends SIGTERM when it requeues the job. Then the program of a step must still start,
 * or the step is not complete and cannot be captured. So proxyd gets a message about the signal,
 * and decides whether the task still waits.
 */
#ifndef SING_SIGNALS_H
#define SING_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

enum { FATAL_SIGNALS = 4 };

/* saved_signals is what signals_accept_fatal changes in a process. */
struct saved_signals {
	char name[16]; /* of the process */
	sigset_t mask;
	struct sigaction actions[FATAL_SIGNALS];
};

/*
 * From now on SIGINT, SIGHUP and SIGQUIT end this process, and SIGTERM unless keep_sigterm; all
 * others wait. With keep_sigterm the call returns a descriptor that becomes readable when SIGTERM
 * has come, or -1; the caller closes the descriptor without reading the signal.
 */
int signals_accept_fatal(struct saved_signals *before, bool keep_sigterm);

/*
 * Restore name, mask and actions. Signals that came meanwhile are dropped; returns whether SIGTERM was
 * one of them.
 */
bool signals_restore(const struct saved_signals *before);

/*
 * End this process at once, as a program with this status of waitpid. slurmstepd takes that for the
 * task's own end. The task does not execute a program for this: that program's file may be missing, the
 * user's limits may forbid to execute it, and before 23.11 a plugin cannot set the program of a task of --multi-prog.
 */
_Noreturn void end_like(int status);

#endif
