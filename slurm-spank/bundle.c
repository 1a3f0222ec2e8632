// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "bundle.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define ACCEPTED "accepted: the absolute path of an OCI bundle, a folder that this host and all nodes of the job see"

static void set_bundle(char bundle[PATH_MAX], const char *path)
{
	snprintf(bundle, PATH_MAX, "%s", path);
}

/* Read --container among words; the last counts. to is the bundle. */
static void read_words(void *to, char *const *words, int n)
{
	static const char option[] = "--container";
	char *bundle = to;
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
		cmdline_read_script(c->argv[words], read_words, bundle);
	if (variable)
		set_bundle(bundle, variable);
	if (words > 1)
		read_words(bundle, c->argv + 1, words - 1);

	return (refusal_of(bundle));
}
