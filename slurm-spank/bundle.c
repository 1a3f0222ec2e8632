// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "bundle.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ACCEPTED "accepted: the absolute path of an OCI bundle, a folder that this host and all nodes of the job see"

static void set_bundle(char bundle[PATH_MAX], const char *path)
{
	snprintf(bundle, PATH_MAX, "%s", path);
}

/* Read --container among words; the last counts. */
static void read_words(char bundle[PATH_MAX], char *const *words, int n)
{
	static const char option[] = "--container";
	const size_t length = strlen(option);

	for (int i = 0; i < n; ++i) {
		if (strncmp(words[i], option, length) != 0)
			continue;
		if (words[i][length] == '=')
			set_bundle(bundle, words[i] + length + 1);
		else if (!words[i][length] && i + 1 < n)
			set_bundle(bundle, words[i + 1]);
	}
}

/* Read the words of a line with #SBATCH. Words may be in quotes. */
static void read_directive(char bundle[PATH_MAX], char *line)
{
	enum { MAX_WORDS = 64 };
	char *words[MAX_WORDS];
	char *rest = NULL;
	int n = 0;

	for (char *word = strtok_r(line, " \t\n", &rest); word && n < MAX_WORDS && word[0] != '#';
	     word = strtok_r(NULL, " \t\n", &rest)) {
		char *to = word;

		for (const char *from = word; *from; ++from) {
			if (*from != '"' && *from != '\'')
				*to++ = *from;
		}
		*to = '\0';
		words[n++] = word;
	}
	read_words(bundle, words, n);
}

/* Read the lines of a script that sbatch reads: those before the first command. */
static void read_script(char bundle[PATH_MAX], const char *path)
{
	static const char directive[] = "#SBATCH";
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	char *line = NULL;
	size_t size = 0;
	FILE *f = NULL;

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
			read_directive(bundle, line + strlen(directive));
	}

out:
	free(line);
	if (f)
		fclose(f);
	else if (fd >= 0)
		close(fd);
}

/*
 * Why the bundle at a path is refused, or NULL. A relative path is refused: Slurm passes the path to the nodes
 * unchanged, and each node would look for it in another folder.
 */
static const char *refusal_of(const char bundle[PATH_MAX])
{
	static char why[2 * PATH_MAX + 256];
	char whole[PATH_MAX];
	struct stat st;
	int problem = 0;

	if (!bundle[0])
		return (NULL);
	if (stat(bundle, &st))
		problem = errno;
	else if (!S_ISDIR(st.st_mode))
		problem = ENOTDIR;
	if (problem) {
		snprintf(why, sizeof(why), "--container=%s: %s; " ACCEPTED, bundle, strerror(problem));
		return (why);
	}
	if (bundle[0] == '/' || !realpath(bundle, whole))
		return (NULL);
	snprintf(why, sizeof(why), "--container=%s: a relative path, which nodes do not find: write --container=%s", bundle, whole);

	return (why);
}

const char *bundle_refusal_of_srun(const struct cmdline *c, int words)
{
	char bundle[PATH_MAX] = "";

	if (words > 1)
		read_words(bundle, c->argv + 1, words - 1);

	return (refusal_of(bundle));
}

const char *bundle_refusal_of_sbatch(const struct cmdline *c, int words)
{
	const char *variable = getenv("SBATCH_CONTAINER");
	char bundle[PATH_MAX] = "";

	if (words < c->argc)
		read_script(bundle, c->argv[words]);
	if (variable)
		set_bundle(bundle, variable);
	if (words > 1)
		read_words(bundle, c->argv + 1, words - 1);

	return (refusal_of(bundle));
}
