// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * The successor of a task's process that another plugin puts into a container (pyxis).
 *
 *	task's process                                 successor
 *	──────────────                                 ─────────
 *	as root: forks it ───────────────────────────► waits, as root, in the node's namespaces
 *	becomes the user
 *	pyxis: joins the user and mount namespaces
 *	of a container; no process leaves such a
 *	user namespace, nor may it join a capsule
 *	environment, descriptors, signal mask ───────► takes the task's cgroup and processors
 *	waits                                          asks proxyd, with the PID of the task's process,
 *	                                               and joins the capsule
 *	                                               becomes the user, and executes sing-warden
 *	ends as the successor has ended
 *
 * What the task's process sends is data of the user's: as root the successor only takes descriptors.
 */
#ifndef SING_SUCCESSOR_H
#define SING_SUCCESSOR_H

#include <signal.h>
#include <slurm/spank.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "message.h"

enum { GIVEN = 4 }; /* descriptors of a handover: 0, 1, 2, and the environment */

/* handover is what a task's process gives its successor. */
struct handover {
	int environment; /* a file in memory */
	sigset_t mask;
};

/* --- predecessor.c: in the task's process --- */

/* As root: fork. Returns as fork does; *sock is this process's end. */
pid_t successor_fork(int *sock);

/*
 * As the user: let the successor go, and wait until it ends; *status is of waitpid. Signals are passed on to the
 * successor if pass_on is set, where Slurm signals the task's process only. Returns false if the task's process is to
 * go on by itself, as the successor says.
 */
bool successor_take_turn(spank_t sp, int sock, pid_t successor, bool pass_on, int *status);

/* --- successor.c: in the successor --- */

/*
 * As root: wait for the task's process, take its descriptors 0 to 2, and its cgroup, processors and, unless alone, its
 * process group. Ends this process if the task's process ends. Returns NULL, or why the task must not run.
 */
const char *successor_wait(int sock, bool alone, struct handover *h);

/* As root: add to the request where the container is. Returns NULL, or why the task must not run. */
const char *successor_add_container(struct message *request);

/*
 * Become the user, whose process this has been since the fork, and replace the environment of the task by that of the
 * task's process. Returns -1 with errno.
 */
int successor_become_user(spank_t sp, const struct handover *h);

/* Have the task's process go on by itself. Ends this process. */
_Noreturn void successor_step_back(int sock);

#endif
