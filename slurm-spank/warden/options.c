// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "warden.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FD = 1 << 20 };

/*
 * Before 23.11 a plugin can replace only argv[0] of a task: by this program. Then these variables
 * have the options and the program's own argv[0].
 */
#define ENV_OPTIONS "SINGULARITY_SLURM_WARDEN"
#define ENV_ARGV0 "SINGULARITY_SLURM_ARGV0"

static const char usage[] =
	"usage: sing-warden [OPTIONS] -- PROGRAM [ARGUMENTS…]\n"
	"       sing-warden [OPTIONS] --restore [-- …]\n"
	"Starts PROGRAM in the capsule whose namespaces this process has joined, and ends as it ends.\n"
	"\n"
	"  --name=NAME   of the program within the capsule, 1 to 47 of [A-Za-z0-9._+-]; default \"program\"\n"
	"  --proc-fd=FD  a descriptor of the host's /proc; files among 0, 1 and 2 are opened again\n"
	"  --root-fd=FD  the program is in a container, whose root is asked for at this socket\n"
	"  --root-cwd=DIR  where the program begins, in the container; default /\n"
	"  --all         every signal goes to every process of the program, as Slurm does in\n"
	"                steps; else only TERM, CONT and TSTP do, the rest to its first process\n"
	"  --restore     PROGRAM is not started: it is being restored under NAME\n"
	"  --terminated  SIGTERM has come before: it is passed on as one that comes now\n"
	"\n"
	"Where " ENV_OPTIONS " is in the environment, it holds the options, separated by\n"
	"single spaces, " ENV_ARGV0 " holds PROGRAM, and the command line ARGUMENTS only.\n";

/* --- values --- */

static int parse_number(int *n, const char *text, int max)
{
	char *end;
	long l;

	if (text[0] < '0' || text[0] > '9')
		return (-1);
	errno = 0;
	l = strtol(text, &end, 10);
	if (errno || *end || l > max)
		return (-1);
	*n = (int)l;

	return (0);
}

static int take_name(struct options *o, const char *value)
{
	static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._+-";
	const size_t n = strlen(value);

	o->name = value;

	return (n > 0 && n < SING_NAME_SIZE && strspn(value, allowed) == n ? 0 : -1);
}

static int take_proc_fd(struct options *o, const char *value)
{
	return (parse_number(&o->proc_fd, value, MAX_FD));
}

static int take_root_fd(struct options *o, const char *value)
{
	return (parse_number(&o->root_fd, value, MAX_FD));
}

static int take_root_cwd(struct options *o, const char *value)
{
	o->root_cwd = value;

	return (value[0] == '/' ? 0 : -1);
}

static int take_all(struct options *o, const char *value)
{
	(void)value;
	o->all = true;

	return (0);
}

static int take_restore(struct options *o, const char *value)
{
	(void)value;
	o->restore = true;

	return (0);
}

static int take_terminated(struct options *o, const char *value)
{
	(void)value;
	o->terminated = true;

	return (0);
}

static const struct {
	const char *name;
	int (*take)(struct options *o, const char *value);
	const char *wants; /* NULL: takes no value */
} table[] = {
	{ "name", take_name, "1 to 47 of [A-Za-z0-9._+-]" },
	{ "proc-fd", take_proc_fd, "the number of a descriptor" },
	{ "root-fd", take_root_fd, "the number of a descriptor" },
	{ "root-cwd", take_root_cwd, "an absolute path" },
	{ "all", take_all, NULL },
	{ "restore", take_restore, NULL },
	{ "terminated", take_terminated, NULL },
};

/* --- words --- */

/* A word: "--NAME" or "--NAME=VALUE". */
static int take_word(struct options *o, const char *word)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); ++i) {
		const size_t n = strlen(table[i].name);

		if (strncmp(word, "--", 2) || strncmp(word + 2, table[i].name, n))
			continue;
		word += 2 + n;
		if (!table[i].wants && !*word)
			return (table[i].take(o, NULL));
		if (table[i].wants && *word == '=') {
			if (table[i].take(o, word + 1) == 0)
				return (0);
			fprintf(stderr, "singularity: --%s%s: want %s\n", table[i].name, word, table[i].wants);
			return (-1);
		}
		word -= 2 + n;
	}

	fprintf(stderr, "singularity: option \"%s\" is not known\n%s", word, usage);
	return (-1);
}

/* The options before "--". Returns how many words of argv were read, or -1. */
static int take_arguments(struct options *o, int argc, char **argv)
{
	int i;

	for (i = 1; i < argc && argv[i][0] == '-'; ++i) {
		if (strcmp(argv[i], "--") == 0)
			return (i + 1);
		if (take_word(o, argv[i]))
			return (-1);
	}

	return (i);
}

/* text is cut into words, to which o then points. */
static int take_environment(struct options *o, char *text)
{
	bool more = true;

	while (more) {
		char *word = text;

		text += strcspn(word, " ");
		more = *text == ' ';
		*text++ = '\0';
		if (take_word(o, word))
			return (-1);
	}

	return (0);
}

/* A variable's value, which outlives the variable; NULL if the variable is not there. */
static int take_variable(char **value, const char *name)
{
	const char *found = getenv(name);

	*value = NULL;
	if (!found)
		return (0);
	*value = strdup(found);
	if (!*value) {
		fprintf(stderr, "singularity: %s: %s\n", name, strerror(errno));
		return (-1);
	}
	unsetenv(name);

	return (0);
}

int parse_options(struct options *o, int argc, char **argv)
{
	char *options;
	char *argv0;
	int n;

	*o = (struct options){ .name = "program", .proc_fd = -1, .root_fd = -1, .root_cwd = "/" };
	if (take_variable(&options, ENV_OPTIONS))
		return (-1);
	if (options) {
		if (take_variable(&argv0, ENV_ARGV0) || take_environment(o, options))
			return (-1);
		o->argv = argv;
		if (argc > 0)
			o->argv[0] = argv0;
	} else {
		n = take_arguments(o, argc, argv);
		if (n < 0)
			return (-1);
		o->argv = argv + n;
	}
	if (!o->restore && !o->argv[0]) {
		fprintf(stderr, "singularity: there is no program to start\n%s", usage);
		return (-1);
	}

	return (0);
}
