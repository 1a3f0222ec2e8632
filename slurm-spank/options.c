// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "values.h"

/* The prefix of the environment variables in which Slurm forwards the plugin's options. */
#define FORWARDED "SLURM_SPANK__SLURM_SPANK_OPTION_singularity_"

enum { SELF = 0, OPTIONS = 9 };

#define TIME_FORMS "minutes, MM:SS, HH:MM:SS, D-HH, D-HH:MM, D-HH:MM:SS, or 30s, 10m, 2h, 1d; at least 10s"

/*
 * The options. The first option is the switch; its value is a list of the other options in
 * their short form. When both forms of an option are given, the long form counts.
 */
static const struct row {
	char *flag;
	const char *brief;	/* within --singularity= */
	const char *key;	/* to proxyd */
	const char *forwarded;	/* variable */
	const char *accepted;
	char *value; /* as --help shows it */
	char *help;
	const char *(*check)(const char *text, char out[VALUE_SIZE]);
	bool bare; /* the option may be given without a value */
} rows[OPTIONS] = {
	{
		.flag = "singularity",
		.key = "singularity",
		.forwarded = FORWARDED "singularity",
		.accepted = "on, off, or a list of interval=, gpus=, on-failure=, exact, outside=, listen=, exclude= and lease=, separated by commas",
		.value = "[KEY=VALUE,...]",
		.bare = true,
		.help = "the job survives a requeue, a preemption, a time limit or a dead node and resumes where it "
			"stood; KEY is interval, gpus, on-failure, exact, outside, listen, exclude or lease, as below; \"off\" switches it off",
	},
	{
		.flag = "singularity-interval",
		.brief = "interval",
		.key = "interval",
		.forwarded = FORWARDED "singularity_interval",
		.accepted = TIME_FORMS,
		.value = "TIME",
		.help = "time between checkpoints; minutes, HH:MM:SS, D-HH:MM or 30s, 10m, 2h; at least 10s",
		.check = value_time,
	},
	{
		.flag = "singularity-gpus",
		.brief = "gpus",
		.key = "gpus",
		.forwarded = FORWARDED "singularity_gpus",
		.accepted = "MIN or MIN-MAX, 1 to 65535",
		.value = "MIN[-MAX]",
		.help = "how many GPUs the job may be shrunk to and grown to",
		.check = value_gpus,
	},
	{
		.flag = "singularity-on-failure",
		.brief = "on-failure",
		.key = "on_failure",
		.forwarded = FORWARDED "singularity_on_failure",
		.accepted = "hold or restart",
		.value = "hold|restart",
		.help = "what becomes of the job if its checkpoint cannot be restored: held, with the reason "
			"(default), or started over",
		.check = value_on_failure,
	},
	{
		.flag = "singularity-exact",
		.brief = "exact",
		.key = "exact",
		.forwarded = FORWARDED "singularity_exact",
		.accepted = "yes, no, or no value for yes",
		.value = "[yes|no]",
		.help = "sums over GPUs have the same bits however many GPUs there are and wherever they are; slower on "
			"real ones",
		.check = value_exact,
		.bare = true,
	},
	{
		.flag = "singularity-outside",
		.brief = "outside",
		.key = "outside",
		.forwarded = FORWARDED "singularity_outside",
		.accepted = "reset, relay or refuse",
		.value = "reset|relay|refuse",
		.help = "connections to other than the job's own nodes when the job resumes: the program finds them reset, "
			"as after a failure of the network; the site's relay keeps them; or the job is not captured "
			"while it has any",
		.check = value_outside,
	},
	{
		.flag = "singularity-listen",
		.brief = "listen",
		.key = "listen",
		.forwarded = FORWARDED "singularity_listen",
		.accepted = "up to 16 ports from 1024 to 65535, separated by commas",
		.value = "PORT,...",
		.help = "clients outside reach these ports of the job's first node at ports of the site's relay, which keeps "
			"their connections while the job is away; singctl show has the addresses; implies "
			"--singularity-outside=relay",
		.check = value_ports,
	},
	{
		.flag = "singularity-exclude",
		.brief = "exclude",
		.key = "exclude",
		.forwarded = FORWARDED "singularity_exclude",
		.accepted = "absolute paths, separated by commas",
		.value = "PATH,...",
		.help = "files and folders that are not put back when the job resumes: caches, data sets",
		.check = value_paths,
	},
	{
		.flag = "singularity-lease",
		.brief = "lease",
		.key = "lease",
		.forwarded = FORWARDED "singularity_lease",
		.accepted = "the number of a running job of yours",
		.value = "JOB",
		.help = "lend the GPUs of this job to JOB, which runs on the same node, until this job ends",
		.check = value_job,
	},
};

/* value is an option's value, in proxyd's form. */
struct value {
	bool given;
	char text[VALUE_SIZE];
};

static struct {
	struct value brief[OPTIONS]; /* of the list; the first is the list itself */
	struct value full[OPTIONS];
	bool asked; /* any option was given */
	bool off;
	char wrong[VALUE_SIZE + 256];
	void (*when_asked)(void);
	const char *of_environment; /* the default, if any */
} chosen;

/* --- checking --- */

/* Remember why a value is refused, in the user's words. */
static void refuse_value(const char *prefix, const char *given, const char *why, const char *accepted)
{
	snprintf(chosen.wrong, sizeof(chosen.wrong), "%s%.200s: %s; accepted: %s", prefix, given, why, accepted);
}

/* Fill value from text. Returns NULL or why not. */
static const char *take_value(const struct row *row, const char *text, struct value *value)
{
	const char *why = row->check(text, value->text);

	value->given = !why;

	return (why);
}

static const struct row *row_of_brief(const char *text, size_t n)
{
	for (const struct row *row = rows + 1; row < rows + OPTIONS; ++row) {
		if (strlen(row->brief) == n && memcmp(row->brief, text, n) == 0)
			return (row);
	}

	return (NULL);
}

/*
 * The length of an element of the list: the value of exclude goes on over the paths that follow, that of listen
 * over the ports.
 */
static size_t element_length(const char *at)
{
	size_t n = strcspn(at, ",");

	if (strncmp(at, "listen=", strlen("listen=")) == 0) {
		while (at[n] == ',' && at[n + 1] >= '0' && at[n + 1] <= '9')
			n += 1 + strcspn(at + n + 1, ",");
	}
	if (strncmp(at, "exclude=", strlen("exclude=")) == 0) {
		while (at[n] == ',' && at[n + 1] == '/')
			n += 1 + strcspn(at + n + 1, ",");
	}

	return (n);
}

/* Take the list apart. Returns 0, or -1 with chosen.wrong set. */
static int take_list(const char *prefix, const char *list)
{
	char text[VALUE_SIZE];

	memset(chosen.brief + 1, 0, (OPTIONS - 1) * sizeof(chosen.brief[0]));
	for (const char *at = list;; ++at) {
		const size_t n = element_length(at);
		const char *value = memchr(at, '=', n);
		const struct row *row = row_of_brief(at, value ? (size_t)(value - at) : n);
		const char *why;

		if (n >= sizeof(text)) {
			refuse_value(prefix, list, "too long", rows[SELF].accepted);
			return (-1);
		}
		memcpy(text, at, n);
		text[n] = '\0';
		if (!row || (!value && !row->bare)) {
			refuse_value(prefix, n ? text : list, n ? "unknown" : "an element is empty", rows[SELF].accepted);
			return (-1);
		}
		if (chosen.brief[row - rows].given) {
			refuse_value(prefix, text, "given twice", rows[SELF].accepted);
			return (-1);
		}
		why = take_value(row, value ? text + strlen(row->brief) + 1 : "", &chosen.brief[row - rows]);
		if (why) {
			refuse_value(prefix, text, why, row->accepted);
			return (-1);
		}
		at += n;
		if (!*at)
			return (0);
	}
}

/* Take the value of --singularity: "on", "off", or a list of options. */
static int take_switch(const char *text)
{
	const bool by_default = chosen.of_environment && strcmp(chosen.of_environment, text) == 0;

	if (strlen(text) >= VALUE_SIZE) {
		refuse_value("--singularity=", text, "too long", rows[SELF].accepted);
		return (-1);
	}
	chosen.off = strcmp(text, "off") == 0;
	chosen.brief[SELF].given = true;
	strcpy(chosen.brief[SELF].text, text);
	if (chosen.off || !*text || strcmp(text, "on") == 0) {
		memset(chosen.brief + 1, 0, (OPTIONS - 1) * sizeof(chosen.brief[0]));
		return (0);
	}

	return (take_list(by_default ? SING_DEFAULT_VARIABLE "=" : "--singularity=", text));
}

static int take_full(const struct row *row, const char *text)
{
	char prefix[64];
	const char *why = take_value(row, text, &chosen.full[row - rows]);

	if (!why)
		return (0);
	snprintf(prefix, sizeof(prefix), "--%s=", row->flag);
	refuse_value(prefix, text, why, row->accepted);

	return (-1);
}

/*
 * Slurm calls this function with an option's value, maybe more than once: the last value counts,
 * for Slurm forwards only that value.
 */
static int take_option(int val, const char *text, int remote)
{
	const struct row *row = rows + val;
	int rv;

	/* On its way to a node or an inner srun, a missing value has become one of these two. */
	if (!text || strcmp(text, "(null)") == 0)
		text = "";
	chosen.asked = true;
	rv = row == rows + SELF ? take_switch(text) : take_full(row, text);
	if (rv && !remote)
		sing_error("%s", chosen.wrong);
	if (!rv && chosen.when_asked && options_on())
		chosen.when_asked();

	/* On a node the task is refused instead; Slurm would only log this and go on. */
	return (remote ? 0 : rv);
}

/* --- towards Slurm --- */

static struct spank_option spank_option_of(const struct row *row)
{
	const int optional = 2, required = 1;

	return ((struct spank_option){
		.name = row->flag,
		.arginfo = row->value,
		.usage = row->help,
		.has_arg = row->bare ? optional : required,
		.val = (int)(row - rows),
		.cb = take_option,
	});
}

void options_register(spank_t sp, void (*when_asked)(void))
{
	chosen.when_asked = when_asked;
	for (const struct row *row = rows; row < rows + OPTIONS; ++row) {
		struct spank_option option = spank_option_of(row);

		if (spank_option_register(sp, &option) != ESPANK_SUCCESS)
			sing_error("--%s cannot be registered", row->flag);
	}
}

void options_from_environment(void)
{
	const char *value = getenv(SING_DEFAULT_VARIABLE);

	if (!value || !*value || strcmp(value, "0") == 0 || strcmp(value, "off") == 0)
		return;
	if (strcmp(value, "1") == 0)
		value = "on";
	chosen.of_environment = value;
	setenv(rows[SELF].forwarded, value, 0); /* an option that an outer sbatch has forwarded stays */
}

bool options_in_environment(void)
{
	const char *self = getenv(rows[SELF].forwarded);

	if (self)
		return (strcmp(self, "off") != 0);
	for (const struct row *row = rows + 1; row < rows + OPTIONS; ++row) {
		if (getenv(row->forwarded))
			return (true);
	}

	return (false);
}

bool options_on(void)
{
	return (chosen.asked && !chosen.off);
}

const char *options_wrong(void)
{
	return (chosen.wrong[0] ? chosen.wrong : NULL);
}

/* The long form of an option counts more than that in the list. */
static const char *value_of_row(size_t row)
{
	const struct value *value = chosen.full[row].given ? &chosen.full[row] : &chosen.brief[row];

	return (value->given ? value->text : NULL);
}

const char *options_value(const char *key)
{
	for (size_t i = 0; i < OPTIONS; ++i) {
		if (strcmp(rows[i].key, key) == 0)
			return (value_of_row(i));
	}

	return (NULL);
}

void options_add(struct message *m)
{
	for (size_t i = 0; i < OPTIONS; ++i) {
		const char *text = value_of_row(i);

		if (text)
			message_add(m, rows[i].key, text);
	}
}

bool options_on_in_epilog(spank_t sp)
{
	bool on = false;

	for (const struct row *row = rows; row < rows + OPTIONS; ++row) {
		struct spank_option option = spank_option_of(row);
		char *value = NULL;

		if (spank_option_getopt(sp, &option, &value) != ESPANK_SUCCESS)
			continue;
		on = true;
		if (row == rows + SELF && value && strcmp(value, "off") == 0)
			return (false);
	}

	return (on);
}
