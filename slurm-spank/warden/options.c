// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "warden.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FD = 1 << 20 };

static const char usage[] =
	"usage: sing-warden [OPTIONS] -- PROGRAM [ARGUMENTS…]\n"
	"       sing-warden [OPTIONS] --restore\n"
	"Starts PROGRAM in the capsule whose namespaces this process has joined, and ends as it ends.\n"
	"\n"
	"  --name=NAME        of the program within the capsule, 1 to 47 of [A-Za-z0-9._+-]; default \"program\"\n"
	"  --proc-fd=FD       a descriptor of the host's /proc; files among 0, 1 and 2 are opened again\n"
	"  --all              every signal goes to every process of the program, as Slurm does in\n"
	"                     steps; else only TERM, CONT and TSTP do, the rest to its first process\n"
	"  --restore          PROGRAM is not started: it is being restored under NAME\n";

static int parse_fd(int *fd, const char *text)
{
	char *end;
	long n;

	errno = 0;
	n = strtol(text, &end, 10);
	if (errno || end == text || *end || n < 0 || n > MAX_FD)
		return (-1);
	*fd = (int)n;

	return (0);
}

static bool is_name(const char *s)
{
	static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._+-";
	const size_t n = strlen(s);

	return (n > 0 && n < SING_NAME_SIZE && strspn(s, allowed) == n);
}

int parse_options(struct options *o, int argc, char **argv)
{
	static const struct option longs[] = {
		{ "name", required_argument, NULL, 'n' },
		{ "proc-fd", required_argument, NULL, 'p' },
		{ "all", no_argument, NULL, 'a' },
		{ "restore", no_argument, NULL, 'r' },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	*o = (struct options){ .name = "program", .proc_fd = -1 };
	while ((c = getopt_long(argc, argv, "+", longs, NULL)) != -1) {
		switch (c) {
		case 'n':
			o->name = optarg;
			break;
		case 'p':
			if (parse_fd(&o->proc_fd, optarg)) {
				fprintf(stderr, "singularity: --proc-fd=%s: want the number of a descriptor\n", optarg);
				return (-1);
			}
			break;
		case 'a':
			o->all = true;
			break;
		case 'r':
			o->restore = true;
			break;
		default:
			fputs(usage, stderr);
			return (-1);
		}
	}
	o->argv = argv + optind;
	if (!is_name(o->name)) {
		fprintf(stderr, "singularity: --name=%s: want 1 to 47 of [A-Za-z0-9._+-]\n", o->name);
		return (-1);
	}
	if (!o->restore && !o->argv[0]) {
		fputs(usage, stderr);
		return (-1);
	}

	return (0);
}
