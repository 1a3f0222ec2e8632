// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* A message of wire.h: built, taken apart, sent and received. */
#ifndef SING_MESSAGE_H
#define SING_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "wire.h"

struct message {
	size_t used;
	bool overflow; /* a key did not fit, and the message must not be sent */
	char bytes[SING_PACKET_SIZE];
};

/* Begin a new message in m. */
void message_begin(struct message *m, const char *verb);

/* Add a key. A key that does not fit sets overflow. */
void message_add(struct message *m, const char *key, const char *value);
void message_add_number(struct message *m, const char *key, unsigned long value);

/*
 * Whether the bytes of m are a message. For bytes that another process has sent, the functions
 * below must not be called before message_valid has returned true.
 */
bool message_valid(const struct message *m);

const char *message_verb(const struct message *m);

/* The value of a key, or NULL; valid as long as m. */
const char *message_get(const struct message *m, const char *key);

/*
 * The next key=value string after at, or the first if at is NULL; NULL after the last.
 */
const char *message_next(const struct message *m, const char *at);

#endif
