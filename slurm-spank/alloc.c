// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "contexts.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "asked_gpus.h"
#include "borrower.h"
#include "bundle.h"
#include "cmdline.h"
#include "config.h"
#include "log.h"
#include "options.h"
#include "pyxis.h"

/*
 * The log of a job that starts again must not be emptied, so sbatch gets the default
 *
 *	SBATCH_OPEN_MODE=append
 *
 * below an --open-mode of the user's own. sbatch takes its options in this order:
 *
 *	#SBATCH lines          our callback sets the variable
 *	SBATCH_… variables     read here
 *	forwarded options      an option in the environment: too late, so append_log is called at the start
 *	command line           likewise
 */
#define OPEN_MODE "SBATCH_OPEN_MODE"

static struct config config;
static bool switched_off; /* on the command line, which counts most */
static bool ours;	  /* this process has set the variable */

static void append_log(void)
{
	if (switched_off || getenv(OPEN_MODE))
		return;
	setenv(OPEN_MODE, "append", 1);
	ours = true;
}

/* Whether the command line asks for this plugin: Slurm passes these options to the plugin too late. */
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

/*
 * Whether the user asks for a log that Slurm empties whenever the job starts. The mode in a line with
 * #SBATCH is not read: the variable counts more.
 */
static bool asks_for_truncation(const struct cmdline *c, int words)
{
	static const char option[] = "--open-mode";
	const char *mode = getenv(OPEN_MODE);

	for (int i = 1; i < words; ++i) {
		const size_t n = strcspn(c->argv[i], "=");

		/* getopt_long accepts shortened options. */
		if (n < sizeof("--op") - 1 || strncmp(c->argv[i], option, n) != 0)
			continue;
		if (c->argv[i][n])
			mode = c->argv[i] + n + 1;
		else if (i + 1 < words)
			mode = c->argv[i + 1];
	}

	return (mode && (*mode == 't' || *mode == 'T'));
}

/*
 * Why the job must not be submitted, or NULL. Tells the user that the log is emptied at each start, if the options ask
 * for that.
 */
static const char *check_submission(void)
{
	const char *why;
	struct cmdline c;

	if (config.wrong[0])
		return (config.wrong);
	cmdline_read(&c);
	why = bundle_refusal_of_sbatch(&c, cmdline_before_script(&c));
	if (!why && options_value("lease"))
		why = borrower_refusal(options_value("lease"));
	if (!why && options_value("gpus") && strcmp(program_invocation_short_name, "sbatch") == 0)
		why = asked_gpus_refusal(options_value("gpus"), &c, cmdline_before_script(&c));
	if (!why && asks_for_truncation(&c, cmdline_before_script(&c)))
		sing_info("--open-mode=truncate: whenever the job starts again, Slurm empties its log; the default is append");
	cmdline_free(&c);

	return (why);
}

/*
 * A task of srun writes on its standard error that it is not protected. salloc's own shell is no task of ours, so
 * salloc tells the user.
 */
static void tell_unprotected(void)
{
	if (strcmp(program_invocation_short_name, "salloc") == 0 && !options_value("lease"))
		sing_info("what salloc starts runs unprotected: Slurm requeues batch jobs only; "
			  "for a shell that is protected: singctl session start");
}

void alloc_options_known(void)
{
	const char *why;

	/* sbatch has read the variable, which the job must not inherit. */
	if (ours)
		unsetenv(OPEN_MODE);
	ours = false;
	if (!options_on())
		return;
	pyxis_note_options();
	why = check_submission();
	if (!why) {
		tell_unprotected();
		return;
	}
	sing_error("%s", why);
	/* Where the plugin is optional, Slurm ignores the result of this function. */
	exit(EXIT_FAILURE);
}
