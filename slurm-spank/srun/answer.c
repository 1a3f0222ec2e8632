// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "srun.h"

#include <stdlib.h>
#include <string.h>

/* A number that a wait status can hold, or -1. */
static int read_number(const char *s, int max)
{
	char *end;
	long n;

	if (*s < '0' || *s > '9')
		return (-1);
	n = strtol(s, &end, 10);

	return (*end || n > max ? -1 : (int)n);
}

/* Read a line. Lines that only a later proxyd writes are ignored. */
static void read_line(struct answer *a)
{
	const char *s = a->line;
	int n;

	if (strncmp(s, "key ", 4) == 0) {
		if (strlen(s + 4) < KEY_SIZE) {
			strcpy(a->key, s + 4);
			a->started = true;
			want_input(!a->reads_nothing);
		}
	} else if (strncmp(s, "exit ", 5) == 0) {
		n = read_number(s + 5, 255);
		if (n >= 0)
			a->status = n << 8;
	} else if (strncmp(s, "signal ", 7) == 0) {
		n = read_number(s + 7, SIGRTMAX);
		if (n > 0)
			a->status = n;
	} else if (strncmp(s, "no ", 3) == 0) {
		strcpy(a->reason, s + 3);
	} else if (strcmp(s, "input none") == 0) {
		a->reads_nothing = true;
	} else if (strcmp(s, "output all") == 0) {
		take_all_output(true);
		hold_input(true);
	} else if (strcmp(s, "output paced") == 0) {
		take_all_output(false);
		hold_input(false);
	}
}

void take_in(struct answer *a, const char *bytes, size_t n)
{
	for (; n > 0; ++bytes, --n) {
		if (*bytes != '\n') {
			if (a->n < sizeof(a->line) - 1)
				a->line[a->n++] = *bytes;
			else
				a->skipping = true;
			continue;
		}
		a->line[a->n] = '\0';
		if (!a->skipping)
			read_line(a);
		a->n = 0;
		a->skipping = false;
	}
}
