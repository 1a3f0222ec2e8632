// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* A request to the node's proxyd, and its answer. */
#ifndef SING_PROXYD_H
#define SING_PROXYD_H

#include <stddef.h>

#include "message.h"

enum { WHY_SIZE = 1024 };

struct reply {
	struct message message;
	int fds[SING_PACKET_FDS];
	size_t n_fds;
};

/*
 * Ask the proxyd that listens at path, and wait for its answer: for ever if seconds is 0.
 * Where no proxyd listens, or where proxyd ends without an answer, the request is repeated for up
 * to retry seconds, because proxyd may be starting again. So it must do no harm if proxyd gets the
 * request twice. When sigterm, a descriptor of signals.h or -1, becomes readable, proxyd is told
 * that this task was sent SIGTERM.
 *
 * Returns 0 with a valid message with the verb ok or no, and with descriptors that the caller must
 * close; or -1 with why set: no proxyd answers in a form that can be understood.
 */
int proxyd_ask(const char *path, int retry, int seconds, int sigterm, const struct message *request,
	       struct reply *reply, char why[WHY_SIZE]);

/* Close the descriptors of a reply. May be called twice. */
void reply_close(struct reply *reply);

#endif
