// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "message.h"

#include <stdio.h>
#include <string.h>

static void append_text(struct message *m, const char *text, size_t n)
{
	if (m->overflow || n > sizeof(m->bytes) - m->used) {
		m->overflow = true;
		return;
	}
	memcpy(m->bytes + m->used, text, n);
	m->used += n;
}

void message_begin(struct message *m, const char *verb)
{
	m->used = 0;
	m->overflow = false;
	append_text(m, verb, strlen(verb) + 1);
}

void message_add(struct message *m, const char *key, const char *value)
{
	append_text(m, key, strlen(key));
	append_text(m, "=", 1);
	append_text(m, value, strlen(value) + 1);
}

void message_add_number(struct message *m, const char *key, unsigned long value)
{
	char text[24];

	snprintf(text, sizeof(text), "%lu", value);
	message_add(m, key, text);
}

const char *message_verb(const struct message *m)
{
	return (m->bytes);
}

const char *message_next(const struct message *m, const char *at)
{
	if (!at)
		at = m->bytes;
	at += strlen(at) + 1;

	return (at < m->bytes + m->used ? at : NULL);
}

/* The length of a key=value string's key. */
static size_t key_length(const char *pair)
{
	return ((size_t)(strchrnul(pair, '=') - pair));
}

const char *message_get(const struct message *m, const char *key)
{
	const size_t n = strlen(key);

	for (const char *at = message_next(m, NULL); at; at = message_next(m, at)) {
		if (key_length(at) == n && memcmp(at, key, n) == 0)
			return (at + n + 1);
	}

	return (NULL);
}

bool message_valid(const struct message *m)
{
	size_t keys = 0;

	if (m->overflow || m->used < 2 || m->used > sizeof(m->bytes) || m->bytes[m->used - 1] != '\0' || !m->bytes[0])
		return (false);
	for (const char *at = message_next(m, NULL); at; at = message_next(m, at)) {
		const size_t n = key_length(at);

		if (n == 0 || at[n] != '=' || ++keys > SING_PACKET_KEYS)
			return (false);
		for (const char *b = message_next(m, NULL); b != at; b = message_next(m, b)) {
			if (key_length(b) == n && memcmp(b, at, n) == 0)
				return (false);
		}
	}

	return (true);
}
