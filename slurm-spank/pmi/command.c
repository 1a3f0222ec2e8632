// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * The two wires of PMI.
 *
 * PMI-1: a line of fields that are separated by spaces.
 *
 *	cmd=put kvsname=s0-1 key=address value=10.88.1.1$1234\n
 *
 * and, for one command, spawn, a line for each field:
 *
 *	mcmd=spawn\nnprocs=2\nexecname=a.out\n…endcmd\n
 *
 * PMI-2: six digits, and as many bytes of fields that each end with a semicolon. A semicolon in a value
 * is written twice.
 *
 *	000041cmd=kvs-put;key=address;value=a;;b;
 *
 * Both begin with the init command of PMI-1, which says the version.
 */
#define _GNU_SOURCE
#include "pmi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS = 6, MAX_BODY = 999999 };

/* --- finding a command --- */

/* The line that ends the lines of mcmd=spawn. */
static ssize_t find_spawn(char *bytes, size_t n, char **text, size_t *length)
{
	static const char last[] = "\nendcmd\n";
	char *end = memmem(bytes, n, last, sizeof(last) - 1);

	if (!end)
		return (n > PMI_MAX_COMMAND ? -1 : 0);
	*text = bytes;
	*length = (size_t)(end - bytes);

	return (end - bytes + (ssize_t)sizeof(last) - 1);
}

static ssize_t find_line(char *bytes, size_t n, char **text, size_t *length)
{
	static const char spawn[] = "mcmd=";
	char *end = memchr(bytes, '\n', n);

	if (n >= sizeof(spawn) - 1 && memcmp(bytes, spawn, sizeof(spawn) - 1) == 0)
		return (find_spawn(bytes, n, text, length));
	if (!end)
		return (n > PMI_MAX_COMMAND ? -1 : 0);
	*text = bytes;
	*length = (size_t)(end - bytes);

	return (end - bytes + 1);
}

ssize_t find_command(char *bytes, size_t n, int version, char **text, size_t *length)
{
	size_t body = 0;

	if (version == 1)
		return (find_line(bytes, n, text, length));
	for (size_t i = 0; i < DIGITS && i < n; ++i) {
		/* The digits are padded on the left, by zeros or by spaces. */
		if (bytes[i] == ' ' && body == 0)
			continue;
		if (bytes[i] < '0' || bytes[i] > '9')
			return (-1);
		body = body * 10 + (size_t)(bytes[i] - '0');
	}
	if (n < DIGITS || n - DIGITS < body)
		return (0);
	*text = bytes + DIGITS;
	*length = body;

	return ((ssize_t)(DIGITS + body));
}

/* --- parsing --- */

/* Add a field with the text key=value, or key. */
static int take_field(struct command *c, char *text)
{
	char *equals = strchr(text, '=');

	if (c->n == PMI_MAX_FIELDS)
		return (-1);
	if (equals)
		*equals++ = '\0';
	c->fields[c->n].key = text;
	c->fields[c->n].value = equals ? equals : text + strlen(text);
	++c->n;

	return (0);
}

/* Parse fields that end at any of the bytes of separators. text ends with a NUL. */
static int take_words(struct command *c, char *text, const char *separators)
{
	char *rest = NULL;

	for (char *word = strtok_r(text, separators, &rest); word; word = strtok_r(NULL, separators, &rest)) {
		if (take_field(c, word))
			return (-1);
	}

	return (0);
}

/*
 * Parse fields of PMI-2. Their texts move towards the front of the buffer, because two semicolons become
 * a single semicolon. text ends with a NUL.
 */
static int take_semicolons(struct command *c, char *text)
{
	char *to = text;
	char *begin = text;

	for (const char *from = text; *from; ++from) {
		if (*from != ';') {
			*to++ = *from;
		} else if (from[1] == ';') {
			*to++ = ';';
			++from;
		} else {
			*to++ = '\0';
			if (take_field(c, begin))
				return (-1);
			begin = to;
		}
	}

	return (to == begin ? 0 : -1); /* bytes behind the last semicolon are no field */
}

int parse_command(struct command *c, char *text, int version)
{
	int bad;

	c->version = version;
	c->n = 0;
	if (version == 1)
		bad = take_words(c, text, strncmp(text, "mcmd=", 5) ? " " : "\n");
	else
		bad = take_semicolons(c, text);
	if (bad || c->n == 0)
		return (-1);

	return (0);
}

const char *find_field(const struct command *c, const char *key)
{
	for (size_t i = 0; i < c->n; ++i) {
		if (strcmp(c->fields[i].key, key) == 0)
			return (c->fields[i].value);
	}

	return (NULL);
}

/* --- answering --- */

/* Add a value. PMI-2 writes each semicolon of a value twice. */
static void add_value(struct reply *r, const char *value)
{
	for (; *value; ++value) {
		add_bytes(&r->text, value, 1);
		if (r->version == 2 && *value == ';')
			add_bytes(&r->text, value, 1);
	}
}

void add_field(struct reply *r, const char *key, const char *value)
{
	if (r->version == 1 && r->text.n > 0)
		add_text(&r->text, " ");
	add_text(&r->text, key);
	add_text(&r->text, "=");
	add_value(r, value);
	if (r->version == 2)
		add_text(&r->text, ";");
}

void add_number_field(struct reply *r, const char *key, long value)
{
	char text[24];

	snprintf(text, sizeof(text), "%ld", value);
	add_field(r, key, text);
}

void begin_reply(struct reply *r, const struct command *c, const char *name)
{
	const char *thread = c->version == 2 ? find_field(c, "thrid") : NULL;

	*r = (struct reply){ .version = c->version };
	add_field(r, "cmd", name);
	if (thread) /* the task matches answers to its threads by this field */
		add_field(r, "thrid", thread);
}

int send_reply(struct reply *r, int fd)
{
	struct buffer out = { 0 };
	char digits[DIGITS + 16];
	int rv = -1;

	if (r->version == 1) {
		add_text(&r->text, "\n");
	} else {
		snprintf(digits, sizeof(digits), "%6zu", r->text.n);
		add_text(&out, digits);
	}
	add_bytes(&out, r->text.bytes, r->text.n);
	if (!out.failed && !r->text.failed && r->text.n <= MAX_BODY)
		rv = write_all(fd, out.bytes, out.n);
	free_buffer(&out);
	free_buffer(&r->text);

	return (rv);
}
