// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "cmdline.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void cmdline_read(struct cmdline *c)
{
	FILE *f;
	char *word = NULL;
	size_t size = 0;

	*c = (struct cmdline){ 0 };
	f = fopen("/proc/self/cmdline", "re");
	if (!f)
		return;
	while (getdelim(&word, &size, '\0', f) > 0) {
		char **more = realloc(c->argv, ((size_t)c->argc + 1) * sizeof(*more));

		if (!more)
			break;
		c->argv = more;
		c->argv[c->argc++] = word;
		word = NULL;
		size = 0;
	}
	free(word);
	fclose(f);
}

void cmdline_free(struct cmdline *c)
{
	for (int i = 0; i < c->argc; ++i)
		free(c->argv[i]);
	free(c->argv);
	*c = (struct cmdline){ 0 };
}

/*
 * Options of sbatch that do not take the next word, in 22.05 to 26.05. An option that is
 * not in this list is assumed to take the next word. If that is wrong, an argument of the script
 * may be read as an option of sbatch; the opposite mistake could miss --open-mode, and a log would
 * be emptied.
 */
static const char short_alone[] = "hHkOQsvVW";
static const char *const long_alone[] = {
	"consolidate-segments", "contiguous", "exclusive", "external", "get-user-env", "help", "hold", "ignore-pbs",
	"nice", "no-kill", "no-requeue", "oom-kill-step", "overcommit", "oversubscribe", "parsable", "propagate",
	"quiet", "reboot", "requeue", "resv-ports", "share", "singularity", "singularity-exact", "spread-job",
	"spread-segments", "stepmgr", "test-only", "usage", "use-min-nodes", "verbose", "version", "wait",
};

static bool takes_next_long(const char *word)
{
	const size_t n = strlen(word);

	if (strchr(word, '='))
		return (false);
	for (size_t i = 0; i < sizeof(long_alone) / sizeof(long_alone[0]); ++i) {
		/* getopt_long accepts shortened options. */
		if (strncmp(word, long_alone[i], n) == 0)
			return (false);
	}

	return (true);
}

/* In -vN2 and -k2 the value is in the word; after -vN the value is the next word. */
static bool takes_next_short(const char *letters)
{
	for (; *letters; ++letters) {
		if (!strchr(short_alone, *letters))
			return (!letters[1]);
		if (*letters == 'k')
			return (false);
	}

	return (false);
}

int cmdline_before_script(const struct cmdline *c)
{
	int i;

	for (i = 1; i < c->argc; ++i) {
		const char *word = c->argv[i];

		if (strcmp(word, "--") == 0)
			break;
		if (strcmp(word, ":") == 0)
			continue; /* the next component of a heterogeneous job */
		if (word[0] != '-' || !word[1])
			break;
		if (word[1] == '-' ? takes_next_long(word + 2) : takes_next_short(word + 1))
			++i;
	}

	return (i < c->argc ? i : c->argc);
}

typedef void take_words(void *to, char *const *words, int n);

/* Take the words of a line with #SBATCH. Words may be in quotes. */
static void take_directive(char *line, take_words *take, void *to)
{
	enum { MAX_WORDS = 64 };
	char *words[MAX_WORDS];
	char *rest = NULL;
	int n = 0;

	for (char *word = strtok_r(line, " \t\n", &rest); word && n < MAX_WORDS && word[0] != '#';
	     word = strtok_r(NULL, " \t\n", &rest)) {
		char *at = word;

		for (const char *from = word; *from; ++from) {
			if (*from != '"' && *from != '\'')
				*at++ = *from;
		}
		*at = '\0';
		words[n++] = word;
	}
	take(to, words, n);
}

int cmdline_read_script(const char *path, take_words *take, void *to)
{
	static const char directive[] = "#SBATCH";
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	char *line = NULL;
	size_t size = 0;
	FILE *f = NULL;
	int rv = -1;

	/* A pipe is not read here: its bytes would be missing for sbatch. */
	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode))
		goto out;
	f = fdopen(fd, "r");
	if (!f)
		goto out;
	while (getline(&line, &size, f) > 0) {
		const size_t blanks = strspn(line, " \t\r\n");

		if (line[blanks] && line[blanks] != '#')
			break;
		if (strncmp(line, directive, strlen(directive)) == 0 && strchr(" \t", line[strlen(directive)]))
			take_directive(line + strlen(directive), take, to);
	}
	rv = 0;

out:
	free(line);
	if (f)
		fclose(f);
	else if (fd >= 0)
		close(fd);

	return (rv);
}
