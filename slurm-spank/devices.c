// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#include "devices.h"

#include <stdio.h>
#include <string.h>

/* A list of numbers, as it is written. */
struct numbers {
	char *out;
	size_t used, size;
};

static bool add_number(struct numbers *to, int number)
{
	const int n = snprintf(to->out + to->used, to->size - to->used, "%s%d", to->used ? "," : "", number);

	if (n < 0 || (size_t)n >= to->size - to->used)
		return (false);
	to->used += (size_t)n;
	return (true);
}

/*
 * Add the places, from 0 on, of a name among names, or of all names if name is NULL; false if the name is not among
 * names, or the list has no room.
 */
static bool add_places(struct numbers *to, const char *name, size_t n, const char *names)
{
	bool found = false;
	int place = 0;

	for (const char *at = names;; ++place) {
		const size_t length = strcspn(at, ",");

		if (!name || (n > 0 && length == n && memcmp(at, name, n) == 0)) {
			if (!add_number(to, place))
				return (false);
			found = true;
		}
		if (!at[length])
			return (found);
		at += length + 1;
	}
}

bool devices_renumber(const char *list, const char *names, char *out, size_t size)
{
	struct numbers to = { out, 0, size };

	for (const char *at = list;; ++at) {
		const size_t length = strcspn(at, ",");

		if (!add_places(&to, at, length, names))
			return (false);
		at += length;
		if (!*at)
			return (true);
	}
}

bool devices_count(const char *names, char *out, size_t size)
{
	struct numbers to = { out, 0, size };

	return (add_places(&to, NULL, 0, names));
}
