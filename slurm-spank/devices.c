// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#include "devices.h"

#include <stdio.h>
#include <string.h>

/* The place of a name among names, from 0 on, or -1. */
static int place_of(const char *name, size_t n, const char *names)
{
	int place = 0;

	for (const char *at = names; n > 0; ++place) {
		const size_t length = strcspn(at, ",");

		if (length == n && memcmp(at, name, n) == 0)
			return (place);
		if (!at[length])
			break;
		at += length + 1;
	}
	return (-1);
}

bool devices_renumber(const char *list, const char *names, char *out, size_t size)
{
	size_t used = 0;

	for (const char *at = list;; ++at) {
		const size_t length = strcspn(at, ",");
		const int place = place_of(at, length, names);
		int n;

		if (place < 0)
			return (false);
		n = snprintf(out + used, size - used, "%s%d", used ? "," : "", place);
		if (n < 0 || (size_t)n >= size - used)
			return (false);
		used += (size_t)n;
		at += length;
		if (!*at)
			return (true);
	}
}
