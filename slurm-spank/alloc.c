// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "contexts.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cmdline.h"
#include "config.h"
#include "log.h"
#include "options.h"

/*
 * The log of a job that starts again must not be emptied, so sbatch gets the default
 *
 *	SBATCH_OPEN_MODE=append
 *
 * below an --open-mode of the user's own. sbatch takes its options in this order:
 *
 *	#SBATCH lines          our callback sets the variable
 *	SBATCH_… variables     read here
 *	forwarded options      an option in the environment: too late, so looked up at the start
 *	command line           likewise
 */
#define OPEN_MODE "SBATCH_OPEN_MODE"

static struct config config;
static bool switched_off; /* on the command line, which has the last word */
static bool ours;	  /* the variable */

static void append_log(void)
{
	if (switched_off || getenv(OPEN_MODE))
		return;
	setenv(OPEN_MODE, "append", 1);
	ours = true;
}

/* Look at what sbatch itself will only see too late. */
static bool asked_on_command_line(void)
{
	struct cmdline c;
	bool asked = false;
	int n;

	cmdline_read(&c);
	n = cmdline_before_script(&c);
	for (int i = 1; i < n; ++i) {
		if (strcmp(c.argv[i], "--singularity=off") == 0)
			switched_off = true;
		if (strcmp(c.argv[i], "--singularity") == 0 || strncmp(c.argv[i], "--singularity=", 14) == 0 ||
		    strncmp(c.argv[i], "--singularity-", 14) == 0)
			asked = true;
	}
	cmdline_free(&c);

	return (asked);
}

void alloc_init(spank_t sp, int argc, char **argv)
{
	config_read(&config, argc, argv);
	options_from_environment();
	options_register(sp, append_log);
	if (asked_on_command_line() || options_in_environment())
		append_log();
}

void alloc_options_known(void)
{
	/* sbatch has read the variable, which is none of the job's business. */
	if (ours)
		unsetenv(OPEN_MODE);
	ours = false;
	if (!options_on() || !config.wrong[0])
		return;
	sing_error("%s", config.wrong);
	/* Where the plugin is optional, Slurm does not heed what we return. */
	exit(EXIT_FAILURE);
}
