// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "contexts.h"

#include <slurm/slurm_version.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bundle.h"
#include "cmdline.h"
#include "config.h"
#include "log.h"
#include "options.h"
#include "pyxis.h"

static struct config config;

void srun_init(spank_t sp, int argc, char **argv)
{
	config_read(&config, argc, argv);
	options_from_environment();
	options_register(sp, NULL);
}

/* Whether word is --name, in full, shortened down to the first letters, or with a value. */
static bool is_option(const char *word, const char *name, size_t letters)
{
	const size_t n = strcspn(word, "=");

	return (n >= letters + 2 && n <= strlen(name) && strncmp(word, name, n) == 0);
}

struct found {
	bool pty, interactive, multi_prog;
	const char *bundle; /* why the step is refused */
};

/*
 * Look for these options among srun's own words. srun has just parsed them with getopt_long, so
 * that optind, a variable of the whole process, is the index of the program to run.
 */
static struct found find_options(void)
{
	struct found found = { 0 };
	struct cmdline c;

	cmdline_read(&c);
	for (int i = 1; i < c.argc && i < optind; ++i) {
		if (is_option(c.argv[i], "--pty", 2))
			found.pty = true;
		if (is_option(c.argv[i], "--interactive", 3))
			found.interactive = true;
		if (is_option(c.argv[i], "--multi-prog", 2))
			found.multi_prog = true;
	}
	found.bundle = bundle_refusal_of_srun(&c, optind < c.argc ? optind : c.argc);
	cmdline_free(&c);

	return (found);
}

static const char *why_refused(void)
{
	const struct found found = find_options();

	if (config.wrong[0])
		return (config.wrong);
	/*
	 * Within a protected job proxyd leaves --pty out (terminal.h), except where sing-srun could not listen, or is of
	 * a release without terminals, from which the job has its kit. The shell that salloc gives its user is not
	 * refused.
	 */
	if (found.pty && !found.interactive)
		return ("--pty: a terminal cannot be captured here: start a shell with singctl session, "
			"or run this step with --singularity=off");
#if SLURM_VERSION_NUMBER < SLURM_VERSION_NUM(23, 11, 0)
	if (found.multi_prog)
		return ("--multi-prog needs Slurm 23.11: plugins of this one cannot reach its programs; "
			"run this step with --singularity=off");
#endif

	return (found.bundle);
}

void srun_options_known(void)
{
	const char *why;

	if (!options_on())
		return;
	pyxis_note_options();
	why = why_refused();
	if (!why)
		return;
	sing_error("%s", why);
	/*
	 * No resources are allocated yet; and where the plugin is optional, Slurm ignores the result of this
	 * function.
	 */
	exit(EXIT_FAILURE);
}
