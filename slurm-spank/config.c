// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "config.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire.h"

#ifndef SING_WARDEN
#define SING_WARDEN "/usr/libexec/singularity-slurm/sing-warden"
#endif

enum { DEFAULT_RETRY = 10, MAX_RETRY = 3600 };

static bool take_path(char *to, size_t size, const char *value)
{
	return (value[0] == '/' && snprintf(to, size, "%s", value) < (int)size);
}

static bool take_socket(struct config *c, const char *value)
{
	return (take_path(c->socket, sizeof(c->socket), value));
}

static bool take_warden(struct config *c, const char *value)
{
	return (take_path(c->warden, sizeof(c->warden), value));
}

static bool take_shim(struct config *c, const char *value)
{
	if (strcmp(value, "none") == 0) {
		c->shim[0] = '\0';
		return (true);
	}

	/* In LD_PRELOAD, colons and spaces separate names. */
	return (!strpbrk(value, ": ") && take_path(c->shim, sizeof(c->shim), value));
}

static bool take_without_proxyd(struct config *c, const char *value)
{
	c->run_unprotected = strcmp(value, "run") == 0;

	return (c->run_unprotected || strcmp(value, "refuse") == 0);
}

static bool take_retry(struct config *c, const char *value)
{
	char *end;
	const long n = strtol(value, &end, 10);

	if (end == value || *end || n < 0 || n > MAX_RETRY)
		return (false);
	c->retry = (int)n;

	return (true);
}

static const struct {
	const char *key;
	const char *accepted;
	bool (*take)(struct config *c, const char *value);
} keys[] = {
	{ "socket", "an absolute path of at most 107 bytes", take_socket },
	{ "warden", "an absolute path", take_warden },
	{ "shim", "an absolute path without colon or space, or none", take_shim },
	{ "without_proxyd", "refuse or run", take_without_proxyd },
	{ "retry", "seconds, 0 to 3600", take_retry },
};

static bool read_one(struct config *c, const char *arg)
{
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); ++i) {
		const size_t n = strlen(keys[i].key);

		if (strncmp(arg, keys[i].key, n) || arg[n] != '=')
			continue;
		if (keys[i].take(c, arg + n + 1))
			return (true);
		snprintf(c->wrong, sizeof(c->wrong), "plugstack.conf: %.100s: accepted is %s", arg, keys[i].accepted);
		return (false);
	}
	snprintf(c->wrong, sizeof(c->wrong),
		 "plugstack.conf: %.100s: accepted are socket=, warden=, shim=, without_proxyd= and retry=", arg);

	return (false);
}

void config_read(struct config *c, int argc, char **argv)
{
	*c = (struct config){ .socket = SING_SPANK_SOCKET, .warden = SING_WARDEN, .retry = DEFAULT_RETRY };
	for (int i = 0; i < argc; ++i) {
		if (!read_one(c, argv[i]))
			return;
	}
}
