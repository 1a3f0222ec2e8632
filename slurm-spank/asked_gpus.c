// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "asked_gpus.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"

/* How a job asks for GPUs, and what multiplies these. */
enum { IN_JOB, ON_NODE, IN_GRES, IN_TASK, NODES, TASKS, COUNTS };

static const struct {
	const char *flag;
	char letter; /* its short form, or '\0' */
	const char *variable;
} options[COUNTS] = {
	[IN_JOB] = { "--gpus", 'G', "SBATCH_GPUS" },
	[ON_NODE] = { "--gpus-per-node", '\0', "SBATCH_GPUS_PER_NODE" },
	[IN_GRES] = { "--gres", '\0', "SBATCH_GRES" },
	[IN_TASK] = { "--gpus-per-task", '\0', "SBATCH_GPUS_PER_TASK" },
	[NODES] = { "--nodes", 'N', NULL },
	[TASKS] = { "--ntasks", 'n', NULL },
};

struct asked {
	bool range;	    /* --singularity-gpus is among the words */
	bool wrapped;	    /* the script is in the words */
	bool unclear;	    /* a word may be about GPUs, or about nodes, in a way that is not understood here */
	long count[COUNTS]; /* 0: not asked */
};

/* The number that ends a text, or -1. */
static long number_of(const char *text)
{
	char *end;
	long n;

	if (*text < '0' || *text > '9')
		return (-1);
	n = strtol(text, &end, 10);

	return (*end || n > 1000000 ? -1 : n);
}

/* The GPUs in "4", "a100:4" and "a100:2,h100:2", and of "gpu", "gpu:4", "gpu:a100:4,nic:1" with gres; or -1. */
static long count_gpus(const char *text, bool gres)
{
	char copy[256];
	char *rest = NULL;
	long n = 0;

	if (strlen(text) >= sizeof(copy))
		return (-1);
	strcpy(copy, text);
	for (char *item = strtok_r(copy, ",", &rest); item; item = strtok_r(NULL, ",", &rest)) {
		const char *last = strrchr(item, ':');
		long of;

		if (gres) {
			if (strncmp(item, "gres/", 5) == 0)
				item += 5;
			if (strncmp(item, "gpu", 3) != 0 || (item[3] && item[3] != ':'))
				continue;
			if (!last) {
				n += 1;
				continue;
			}
		}
		of = number_of(last ? last + 1 : item);
		if (of < 0)
			return (-1);
		n += of;
	}

	return (n);
}

/* The most nodes in "2" and "1-4", or -1. */
static long count_most(const char *text)
{
	const char *dash = strchr(text, '-');

	return (number_of(dash ? dash + 1 : text));
}

static void take_count(struct asked *a, int which, const char *value)
{
	long n;

	if (!value)
		return;
	n = which >= NODES ? count_most(value) : count_gpus(value, which == IN_GRES);
	if (n < 0)
		a->unclear = true;
	a->count[which] = n < 0 ? 0 : n;
}

/* The value of an option in a word, or next, the word behind; NULL if the word is not the option. */
static const char *value_in(const char *word, const char *next, int which)
{
	const size_t n = strlen(options[which].flag);

	if (strncmp(word, options[which].flag, n) == 0 && (word[n] == '=' || !word[n]))
		return (word[n] ? word + n + 1 : next);
	if (options[which].letter && word[0] == '-' && word[1] == options[which].letter)
		return (word[2] ? word + 2 : next);

	return (NULL);
}

/*
 * Whether a word may change how many GPUs the job gets, although value_in knows no option in it: a shortened
 * option, a list of nodes, whole nodes, letters together, a partition for GPUs, parts of a heterogeneous job.
 */
static bool may_matter(const char *word)
{
	static const char *const prefixes[] = { "--gr", "--tres", "--no", "--nt", "--exc", "hetjob" };
	static const char tasks_of_node[] = "--ntasks-per-";

	if (strcasestr(word, "gpu") || strcmp(word, ":") == 0)
		return (true);
	if (strncmp(word, tasks_of_node, strlen(tasks_of_node)) == 0)
		return (false);
	if (word[0] == '-' && word[1] != '-')
		return (strpbrk(word, "GNnwF"));
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); ++i) {
		if (strncmp(word, prefixes[i], strlen(prefixes[i])) == 0)
			return (true);
	}

	return (false);
}

/* Take words of the command line or of a #SBATCH line; the last of an option counts. */
static void take_words(void *to, char *const *words, int n)
{
	struct asked *a = to;

	for (int i = 0; i < n; ++i) {
		const char *word = words[i];
		const char *next = i + 1 < n ? words[i + 1] : NULL;
		const char *value = NULL;
		int which = 0;

		if (strncmp(word, "--singularity", 13) == 0) {
			a->range = a->range || strncmp(word, "--singularity-gpus", 18) == 0 ||
				   (word[13] == '=' && strstr(word, "gpus="));
			if (strcmp(word, "--singularity-gpus") == 0)
				++i;
			continue;
		}
		a->wrapped = a->wrapped || strncmp(word, "--wrap", 6) == 0;
		while (which < COUNTS && !(value = value_in(word, next, which)))
			++which;
		if (!value) {
			a->unclear = a->unclear || may_matter(word);
			continue;
		}
		take_count(a, which, value);
		if (value == next)
			++i;
	}
}

/* How many GPUs the job asks for at most, 0 for none, or -1 if the words do not tell. */
static long most_gpus(const struct asked *a)
{
	const long *count = a->count;
	const long nodes = count[NODES] ? count[NODES] : count[TASKS] ? count[TASKS] : 1;
	int forms = 0;

	for (int i = IN_JOB; i <= IN_TASK; ++i)
		forms += count[i] > 0;
	if (a->unclear || forms > 1)
		return (-1);
	if (count[IN_TASK])
		return (count[TASKS] ? count[IN_TASK] * count[TASKS] : -1);

	return (count[IN_JOB] + (count[ON_NODE] + count[IN_GRES]) * nodes);
}

const char *asked_gpus_refusal(const char *range, const struct cmdline *c, int words)
{
	static char why[256];
	struct asked a = { 0 };
	char instead[32];
	long min = 0, max = 0, gpus;

	if (words < c->argc && cmdline_read_script(c->argv[words], take_words, &a))
		return (NULL);
	for (int i = 0; i < COUNTS; ++i) {
		if (options[i].variable)
			take_count(&a, i, getenv(options[i].variable));
	}
	a.unclear = a.unclear || getenv("SBATCH_EXCLUSIVE") || getenv("SBATCH_TRES_PER_TASK");
	if (words > 1)
		take_words(&a, c->argv + 1, words - 1);
	if (words >= c->argc && !a.wrapped) /* the script comes by standard input */
		return (NULL);
	gpus = a.range ? most_gpus(&a) : -1;
	if (gpus < 0 || sscanf(range, "%ld-%ld", &min, &max) != 2 || min <= gpus)
		return (NULL);
	if (gpus == 0) { /* unless a plugin of the site's adds some */
		sing_info("--singularity-gpus=%s: the job asks Slurm for no GPU; without --gpus-per-node=N or the like this option does nothing",
			  range);
		return (NULL);
	}
	snprintf(instead, sizeof(instead), max > gpus ? "%ld-%ld" : "%ld", gpus, max);
	snprintf(why, sizeof(why), "--singularity-gpus=%s: the job asks Slurm for %ld GPU%s, and MIN can be no more: write --singularity-gpus=%s",
		 range, gpus, gpus == 1 ? "" : "s", instead);

	return (why);
}
