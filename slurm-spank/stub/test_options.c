// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "stub.h"

#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIST "on, off, or a list of interval=, gpus=, on-failure=, exact, outside=, listen=, exclude= and lease=, separated by commas"

static const struct answer plain = ANSWER("ok\0mode=plain");

/* Make a task ask, and see the options in its request. */
static void ask_as_task(struct message *m)
{
	slurm.step = STEP_OF_BATCH;
	CHECK(task_as_root() == 0);
	proxyd_got(m);
}

static const char *asked_value(const struct message *m, const char *key)
{
	const char *value = message_get(m, key);

	return (value ? value : "(none)");
}

static void test_registered(void)
{
	static const spank_context_t contexts[] = { S_CTX_LOCAL, S_CTX_REMOTE, S_CTX_ALLOCATOR };
	const char *which = getenv("STUB_CONTEXT");

	load(contexts[which ? atoi(which) : 0], NULL);
	CHECK(options_registered() == 9);
	CHECK(options_documented());
}

static void registered_everywhere(void)
{
	char said[4096];

	for (int i = 0; i < 3; ++i) {
		setenv("STUB_CONTEXT", (char[]){ (char)('0' + i), '\0' }, 1);
		if (in_child(test_registered, said, sizeof(said)))
			errx(1, "the options in context %d are wrong: %s", i, said);
	}
}

static void not_in_slurmd(void)
{
	load(S_CTX_SLURMD, "colour=red", NULL);
	CHECK(options_registered() == 0);
	CONTAINS(slurm.said, "singularity: plugstack.conf: colour=red: accepted are socket=");
}

static void test_refused(void)
{
	static const struct {
		const char *option, *value, *said;
	} rows[] = {
		{ "singularity", "yes", "--singularity=yes: unknown; accepted: " LIST },
		{ "singularity", "colour=red", "--singularity=colour=red: unknown; accepted: " LIST },
		{ "singularity", "gpus=2,", "--singularity=gpus=2,: an element is empty; accepted: " LIST },
		{ "singularity", "gpus=2,gpus=4", "--singularity=gpus=4: given twice; accepted: " LIST },
		{ "singularity", "interval=5s", "--singularity=interval=5s: shorter than 10 seconds; accepted: minutes, MM:SS," },
		{ "singularity", "exclude=/a,b", "--singularity=b: unknown; accepted: " LIST },
		{ "singularity", "exclude=", "--singularity=exclude=: an empty path; accepted: absolute paths, separated by commas" },
		{ "singularity-interval", "soon", "--singularity-interval=soon: not a time; accepted: minutes, MM:SS, HH:MM:SS, "
						  "D-HH, D-HH:MM, D-HH:MM:SS, or 30s, 10m, 2h, 1d; at least 10s" },
		{ "singularity-gpus", "8-4", "--singularity-gpus=8-4: the minimum is above the maximum; accepted: MIN or MIN-MAX" },
		{ "singularity-on-failure", "panic", "--singularity-on-failure=panic: neither of the two; accepted: hold or restart" },
		{ "singularity-exact", "maybe", "--singularity-exact=maybe: neither yes nor no; accepted: yes, no, or no value for yes" },
		{ "singularity-outside", "keep", "--singularity-outside=keep: none of the three; accepted: reset, relay or refuse" },
		{ "singularity-listen", "80", "--singularity-listen=80: out of range; accepted: up to 16 ports from 1024 to 65535, separated by commas" },
		{ "singularity-lease", "812_3", "--singularity-lease=812_3: not the number of a job; accepted: the number of a running job" },
		{ "singularity-lease", "0", "--singularity-lease=0: not the number of a job; accepted: the number of a running job" },
		{ "singularity", "gpus", "--singularity=gpus: unknown; accepted: " LIST },
		{ "singularity-exclude", "tmp", "--singularity-exclude=tmp: a relative path; accepted: absolute paths, separated by" },
	};

	load(S_CTX_LOCAL, NULL);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
		slurm.said[0] = '\0';
		CHECK(give(rows[i].option, rows[i].value) != 0);
		CONTAINS(slurm.said, rows[i].said);
		CONTAINS(slurm.said, "singularity: --");
	}
}

static void test_taken(void)
{
	static struct message m;

	proxyd_start(&plain, 1);
	load(S_CTX_REMOTE, socket_arg, "warden=/bin/sh", NULL);
	give("singularity", "interval=10m,exclude=/a,/b,listen=8888,6006,gpus=2,on-failure=hold");
	give("singularity-gpus", "4-8");
	give("singularity-lease", "812");
	ask_as_task(&m);
	CHECK(strcmp(asked_value(&m, "lease"), "812") == 0);
	CHECK(strcmp(asked_value(&m, "singularity"), "interval=10m,exclude=/a,/b,listen=8888,6006,gpus=2,on-failure=hold") == 0);
	CHECK(strcmp(asked_value(&m, "listen"), "8888,6006") == 0);
	CHECK(strcmp(asked_value(&m, "interval"), "600") == 0);
	CHECK(strcmp(asked_value(&m, "exclude"), "/a,/b") == 0);
	CHECK(strcmp(asked_value(&m, "gpus"), "4-8") == 0);
	CHECK(strcmp(asked_value(&m, "on_failure"), "hold") == 0);
}

/* The option needs no value, within the list as well. */
static void exact_in_list(void)
{
	static struct message m;

	proxyd_start(&plain, 1);
	load(S_CTX_REMOTE, socket_arg, "warden=/bin/sh", NULL);
	give("singularity", "exact,outside=refuse,gpus=2");
	ask_as_task(&m);
	CHECK(strcmp(asked_value(&m, "outside"), "refuse") == 0);
	CHECK(strcmp(asked_value(&m, "exact"), "yes") == 0);
	CHECK(strcmp(asked_value(&m, "gpus"), "2-2") == 0);
}

static void exact_alone(void)
{
	static struct message m;

	proxyd_start(&plain, 1);
	load(S_CTX_REMOTE, socket_arg, "warden=/bin/sh", NULL);
	give("singularity", "exact=no");
	give("singularity-exact", NULL);
	ask_as_task(&m);
	CHECK(strcmp(asked_value(&m, "exact"), "yes") == 0);
}

/* Options are given in any order, and several times: the last value counts. */
static void last_one_counts(void)
{
	static struct message m;

	proxyd_start(&plain, 1);
	load(S_CTX_REMOTE, socket_arg, "warden=/bin/sh", NULL);
	give("singularity-on-failure", "restart");
	give("singularity", "on-failure=hold,interval=10m");
	give("singularity", "gpus=2");
	give("singularity-on-failure", "restart");
	ask_as_task(&m);
	CHECK(strcmp(asked_value(&m, "singularity"), "gpus=2") == 0);
	CHECK(strcmp(asked_value(&m, "interval"), "(none)") == 0);
	CHECK(strcmp(asked_value(&m, "gpus"), "2-2") == 0);
	CHECK(strcmp(asked_value(&m, "on_failure"), "restart") == 0);
}

static void test_implied(void)
{
	static struct message m;

	proxyd_start(&plain, 1);
	load(S_CTX_REMOTE, socket_arg, "warden=/bin/sh", NULL);
	give("singularity-interval", "1");
	ask_as_task(&m);
	CHECK(strcmp(asked_value(&m, "interval"), "60") == 0);
	CHECK(strcmp(asked_value(&m, "singularity"), "(none)") == 0);
}

static void without_value(void)
{
	static const char *const values[] = { NULL, "", "(null)", "on" };
	static struct message m;

	proxyd_start(&plain, 1);
	load(S_CTX_REMOTE, socket_arg, "warden=/bin/sh", NULL);
	for (int i = 0; i < 4; ++i)
		CHECK(give("singularity", values[i]) == 0);
	give("singularity", NULL);
	ask_as_task(&m);
	CHECK(strcmp(asked_value(&m, "singularity"), "") == 0);
}

static void test_off(void)
{
	load(S_CTX_REMOTE, socket_arg, "warden=/bin/sh", NULL);
	give("singularity", "off");
	give("singularity-gpus", "2");
	CHECK(task_as_root() == 0 && task_as_user() == 0);
	CHECK(sockets == 0 && slurm.calls == 0);
}

const struct test option_tests[] = {
	{ "options in every context", registered_everywhere },
	{ "options not in slurmd", not_in_slurmd },
	{ "options refused", test_refused },
	{ "options taken", test_taken },
	{ "options, exact in a list", exact_in_list },
	{ "options, exact alone", exact_alone },
	{ "options, the last one counts", last_one_counts },
	{ "options imply the switch", test_implied },
	{ "options without a value", without_value },
	{ "options off", test_off },
	{ NULL, NULL },
};
