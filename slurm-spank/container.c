// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "container.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/*
 * The limits that sbatch and srun send along as SLURM_RLIMIT_NAME (slurm_rlimits_info.c). A value
 * that begins with U was set by the user with --propagate.
 */
static const struct {
	const char *name;
	int resource;
} limits[] = {
	{ "CPU", RLIMIT_CPU },	     { "FSIZE", RLIMIT_FSIZE }, { "DATA", RLIMIT_DATA },
	{ "STACK", RLIMIT_STACK },   { "CORE", RLIMIT_CORE },	{ "RSS", RLIMIT_RSS },
	{ "NPROC", RLIMIT_NPROC },   { "NOFILE", RLIMIT_NOFILE }, { "MEMLOCK", RLIMIT_MEMLOCK },
	{ "AS", RLIMIT_AS },
};

/*
 * Set a soft limit, as far as the hard limit allows. Slurm does so by default
 * (PropagateResourceLimits=ALL); a plugin cannot read that setting.
 */
static void set_limit(spank_t sp, size_t which)
{
	char name[64], value[64];
	const char *digits = value;
	struct rlimit r;
	char *end;
	unsigned long long wanted;

	snprintf(name, sizeof(name), "SLURM_RLIMIT_%s", limits[which].name);
	if (spank_getenv(sp, name, value, sizeof(value)) != ESPANK_SUCCESS)
		return;
	spank_unsetenv(sp, name); /* programs must not see these variables */
	if (*digits == 'U')
		digits++;
	errno = 0;
	wanted = strtoull(digits, &end, 10);
	if (errno || end == digits || *end || getrlimit(limits[which].resource, &r))
		return;
	r.rlim_cur = wanted > r.rlim_max ? r.rlim_max : (rlim_t)wanted;
	setrlimit(limits[which].resource, &r);
}

void container_execute(spank_t sp, const char *warden, const char *const *options, int n, const char *script)
{
	const char **words;
	char **argv = NULL;
	char **env = NULL;
	int argc = 0;
	int at = 0;

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); ++i)
		set_limit(sp, i);
	if (spank_get_item(sp, S_JOB_ARGV, &argc, &argv) != ESPANK_SUCCESS || argc < 1 ||
	    spank_get_item(sp, S_JOB_ENV, &env) != ESPANK_SUCCESS) {
		dprintf(STDERR_FILENO, "singularity: the container cannot be started: the task has no program\n");
		return;
	}
	words = calloc((size_t)(n + argc + 3), sizeof(*words));
	if (!words) {
		dprintf(STDERR_FILENO, "singularity: the container cannot be started: %s\n", strerror(errno));
		return;
	}
	words[at++] = warden;
	for (int i = 0; i < n; ++i)
		words[at++] = options[i];
	words[at++] = "--";
	for (int i = 0; i < argc; ++i)
		words[at++] = i == 0 && script && *script ? script : argv[i];
	execve(warden, (char *const *)(uintptr_t)words, env);
	dprintf(STDERR_FILENO, "singularity: %s: %s\n", warden, strerror(errno));
	free(words);
}
