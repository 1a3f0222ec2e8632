// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* A task's way into its capsule. */
#ifndef SING_CAPSULE_H
#define SING_CAPSULE_H

#include <slurm/spank.h>
#include <stdbool.h>

#include "config.h"
#include "proxyd.h"

enum { NAME_SIZE = 48 }; /* of a program within its capsule */

/* fate is the decision about a task: whether it runs, and where. */
struct fate {
	enum {
		PLAIN,	  /* the task runs outside of a capsule; why may have the reason */
		JOINED,	  /* the task is in its capsule, as name */
		FINISHED, /* the task ended in an earlier run, with status */
		REFUSED,  /* the task must not run; why says the reason */
	} kind;
	bool restore; /* JOINED: the program is not started, but restored */
	bool terminated; /* SIGTERM came while the task of a step waited */
	int proc_fd;  /* JOINED: the node's /proc, or -1; stays open over execve */
	int root_fd;  /* JOINED: the socket that root_changer.h draws, or -1; stays open over execve */
	int status;
	char name[NAME_SIZE];
	char why[WHY_SIZE];
	struct reply reply; /* JOINED: with the variables for its environment */
};

/*
 * Ask proxyd about this task and carry out its answer. The process must have a single thread, be
 * root, and be the process that becomes the task; afterwards the process may be in other
 * namespaces, with the same working directory as before.
 *
 * The call waits as long as a restore takes. Meanwhile SIGINT, SIGHUP and SIGQUIT end the
 * process, and SIGTERM the batch script's; other signals are lost, because there is no program
 * yet that could get them. A SIGTERM to a task of a step is reported to proxyd, which then answers.
 */
void capsule_enter(const struct config *c, const struct message *request, struct fate *fate);

#endif
