// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "stub.h"

#include <err.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cmdline.h"
#include "../config.h"
#include "../devices.h"
#include "../values.h"

/* want is the value that proxyd gets, or ! and the message that the user gets. */
struct row {
	const char *text, *want;
};

static void check_table(const char *(*f)(const char *, char[VALUE_SIZE]), const struct row *rows)
{
	for (; rows->text; ++rows) {
		char out[VALUE_SIZE] = "";
		const char *why = f(rows->text, out);

		if (rows->want[0] == '!' ? !why || strcmp(why, rows->want + 1) : why || strcmp(out, rows->want))
			errx(1, "%s: got %s%s, want %s", rows->text, why ? "!" : "", why ? why : out, rows->want);
	}
}

static void test_times(void)
{
	static const struct row rows[] = {
		{ "1", "60" }, { "90", "5400" }, { "0:10", "10" }, { "10:30", "630" }, { "90:00", "5400" },
		{ "1:00:00", "3600" }, { "0:00:10", "10" }, { "48:00:01", "172801" }, { "1-0", "86400" },
		{ "0-1", "3600" }, { "1-12", "129600" }, { "1-12:30", "131400" }, { "1-12:30:15", "131415" },
		{ "30s", "30" }, { "10m", "600" }, { "2h", "7200" }, { "1d", "86400" }, { "10s", "10" },
		{ "365d", "31536000" }, { "0000001", "60" },
		{ "", "!not a time" }, { "9s", "!shorter than 10 seconds" }, { "0", "!shorter than 10 seconds" },
		{ "0:9", "!shorter than 10 seconds" }, { "366d", "!longer than a year" },
		{ "999999999-23:59:59", "!longer than a year" }, { "9999999999", "!not a time" },
		{ "99999999999999999999", "!not a time" }, { "10:60", "!not a time" }, { "1:60:00", "!not a time" },
		{ "1-24", "!not a time" }, { "1-", "!not a time" }, { "-1", "!not a time" }, { "1:", "!not a time" },
		{ ":1", "!not a time" }, { "1:2:3:4", "!not a time" }, { "1-2:3:4:5", "!not a time" },
		{ "10 m", "!not a time" }, { "10min", "!not a time" }, { "1h30m", "!not a time" }, { "ten", "!not a time" },
		{ "1.5h", "!not a time" }, { "+5", "!not a time" }, { "UNLIMITED", "!not a time" }, { NULL, NULL },
	};

	check_table(value_time, rows);
}

static void test_gpus(void)
{
	static const struct row rows[] = {
		{ "4", "4-4" }, { "1-8", "1-8" }, { "8-8", "8-8" }, { "65535", "65535-65535" },
		{ "0", "!out of range" }, { "0-4", "!out of range" }, { "1-65536", "!out of range" },
		{ "8-4", "!the minimum is above the maximum" }, { "", "!not a number of GPUs" },
		{ "a", "!not a number of GPUs" }, { "4-", "!not a range of numbers" }, { "4-x", "!not a range of numbers" },
		{ "4:8", "!not a range of numbers" }, { "-4", "!not a number of GPUs" },
		{ "4-8-16", "!not a range of numbers" }, { "10000000000", "!not a number of GPUs" }, { NULL, NULL },
	};

	check_table(value_gpus, rows);
}

static void on_failure(void)
{
	static const struct row rows[] = {
		{ "hold", "hold" }, { "restart", "restart" }, { "", "!neither of the two" },
		{ "Hold", "!neither of the two" }, { "holdrestart", "!neither of the two" }, { NULL, NULL },
	};

	check_table(value_on_failure, rows);
}

static void test_outside(void)
{
	static const struct row rows[] = {
		{ "reset", "reset" }, { "relay", "relay" }, { "refuse", "refuse" }, { "", "!none of the three" },
		{ "Reset", "!none of the three" }, { "resetrefuse", "!none of the three" }, { NULL, NULL },
	};

	check_table(value_outside, rows);
}

static void test_ports(void)
{
	static const struct row rows[] = {
		{ "8888", "8888" }, { "8888,1024,65535", "8888,1024,65535" }, { "08888", "8888" },
		{ "1,2,3", "!out of range" }, { "1023", "!out of range" }, { "65536", "!out of range" }, { "", "!not a list of ports" },
		{ "8888,", "!not a list of ports" }, { ",8888", "!not a list of ports" }, { "8888-8890", "!not a list of ports" },
		{ "8888,a", "!not a list of ports" }, { "8888,8888", "!a port is given twice" },
		{ "2000,2001,2002,2003,2004,2005,2006,2007,2008,2009,2010,2011,2012,2013,2014,2015,2016", "!too many" },
		{ NULL, NULL },
	};

	check_table(value_ports, rows);
}

static void test_paths(void)
{
	static char longest[VALUE_SIZE + 1];
	static const struct row rows[] = {
		{ "/a", "/a" }, { "/a,/b/c,/d e", "/a,/b/c,/d e" }, { "//a", "//a" },
		{ "", "!an empty path" }, { "/a,", "!an empty path" }, { ",/a", "!an empty path" },
		{ "/a,,/b", "!an empty path" }, { "a", "!a relative path" }, { "/a,b", "!a relative path" },
		{ "~/a", "!a relative path" }, { "/", "!the root holds everything" }, { "/a,//", "!the root holds everything" },
		{ NULL, NULL },
	};
	const struct row limits[] = { { longest, "!longer than 4095 bytes" }, { NULL, NULL } };

	check_table(value_paths, rows);
	memset(longest, '/', VALUE_SIZE);
	longest[1] = 'a';
	check_table(value_paths, limits);
	longest[VALUE_SIZE - 1] = '\0';
	CHECK(!value_paths(longest, (char[VALUE_SIZE]){ 0 }));
}

static void test_arguments(void)
{
	static const struct {
		char *arg;
		const char *wrong;
	} rows[] = {
		{ "socket=/a/b", "" },
		{ "warden=/x", "" },
		{ "shim=none", "" },
		{ "shim=/lib/shim.so", "" },
		{ "without_proxyd=run", "" },
		{ "retry=0", "" },
		{ "socket=a", "plugstack.conf: socket=a: accepted is an absolute path of at most 107 bytes" },
		{ "shim=/a:b", "plugstack.conf: shim=/a:b: accepted is an absolute path without colon or space, or none" },
		{ "without_proxyd=yes", "plugstack.conf: without_proxyd=yes: accepted is refuse or run" },
		{ "retry=1x", "plugstack.conf: retry=1x: accepted is seconds, 0 to 3600" },
		{ "retry=-1", "plugstack.conf: retry=-1: accepted is seconds, 0 to 3600" },
		{ "sockets=/a",
		  "plugstack.conf: sockets=/a: accepted are socket=, warden=, shim=, without_proxyd= and retry=" },
		{ "debug", "plugstack.conf: debug: accepted are socket=, warden=, shim=, without_proxyd= and retry=" },
	};
	struct config c;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
		config_read(&c, 1, (char *[]){ rows[i].arg });
		if (strcmp(c.wrong, rows[i].wrong))
			errx(1, "%s: the error is \"%s\", want another", rows[i].arg, c.wrong);
	}
	config_read(&c, 0, NULL);
	CHECK(!c.wrong[0] && !c.shim[0] && !c.run_unprotected && c.retry == 10);
	CHECK(strcmp(c.socket, SING_SPANK_SOCKET) == 0);
	CHECK(strcmp(c.warden, "/usr/libexec/singularity-slurm/sing-warden") == 0);
	config_read(&c, 3, (char *[]){ "shim=/s.so", "without_proxyd=run", "socket=/tmp/s" });
	CHECK(strcmp(c.shim, "/s.so") == 0 && c.run_unprotected && strcmp(c.socket, "/tmp/s") == 0);
}

/* Find sbatch's script among the words of a command line. */
static void test_script(void)
{
	static const struct {
		char *argv[12];
		int want;
	} rows[] = {
		{ { "sbatch", "job.sh", "--singularity" }, 1 },
		{ { "sbatch", "--singularity", "job.sh" }, 2 },
		{ { "sbatch", "-N2", "job.sh", "--singularity" }, 2 },
		{ { "sbatch", "-N", "2", "job.sh", "--singularity" }, 3 },
		{ { "sbatch", "-vN", "2", "job.sh" }, 3 },
		{ { "sbatch", "-k2", "job.sh" }, 2 },
		{ { "sbatch", "-k", "job.sh" }, 2 },
		{ { "sbatch", "-HO", "job.sh" }, 2 },
		{ { "sbatch", "--nodes", "2", "--exclusive", "job.sh", "-N", "3" }, 4 },
		{ { "sbatch", "--nodes=2", "job.sh" }, 2 },
		{ { "sbatch", "--excl", "job.sh" }, 2 },
		{ { "sbatch", "--singularity-gpus", "2", "job.sh" }, 3 },
		{ { "sbatch", "--singularity-exact", "job.sh", "--open-mode=truncate" }, 2 },
		{ { "sbatch", "--wrap", "sleep 1" }, 3 },
		{ { "sbatch", "--", "--singularity" }, 1 },
		{ { "sbatch", "-N1", ":", "-N2", "job.sh" }, 4 },
		{ { "sbatch", "-J" }, 2 },
		{ { "sbatch" }, 1 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
		struct cmdline c = { .argv = (char **)(uintptr_t)rows[i].argv };
		int got;

		while (c.argc < 12 && rows[i].argv[c.argc])
			++c.argc;
		got = cmdline_before_script(&c);
		if (got != rows[i].want)
			errx(1, "row %zu: %d words before the script, want %d", i, got, rows[i].want);
	}
}

static void test_devices(void)
{
	static const struct {
		const char *list, *names, *want; /* NULL: not renumbered */
	} rows[] = {
		{ "3", "2,3", "1" },	 { "2,3", "2,3", "0,1" }, { "3,2", "2,3", "1,0" }, { "0", "0", "0" },
		{ "12,1", "1,12", "1,0" }, { "1", "2,3", NULL },	  { "2,1", "2,3", NULL },  { "", "2,3", NULL },
		{ "2,", "2,3", NULL },	 { "2", "", NULL },	  { "GPU-1", "2", NULL },  { ",", ",", NULL },
		{ "2", "2,2,2,2", "0,1,2,3" }, { "3", "2,2,3,3", "2,3" }, { "3,2", "2,2,3", "2,0,1" },
	};
	char out[16];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
		const bool is = devices_renumber(rows[i].list, rows[i].names, out, sizeof(out));

		if (is != (rows[i].want != NULL) || (is && strcmp(out, rows[i].want) != 0))
			errx(1, "%s among %s: got %s", rows[i].list, rows[i].names, is ? out : "nothing");
	}
	if (devices_renumber("1,1", "1", out, 3) || !devices_renumber("1,1", "1", out, 4))
		errx(1, "devices_renumber does not keep to the size of out");
	if (!devices_count("2,2,3", out, sizeof(out)) || strcmp(out, "0,1,2") != 0 || !devices_count("7", out, 2) || devices_count("1,2", out, 3))
		errx(1, "devices_count does not count the names: %s", out);
}

const struct test value_tests[] = {
	{ "times", test_times },	{ "gpus", test_gpus },	  { "on failure", on_failure },
	{ "outside", test_outside },	{ "ports", test_ports },	{ "paths", test_paths },	  { "plugstack arguments", test_arguments },
	{ "sbatch's script", test_script }, { "devices", test_devices }, { NULL, NULL },
};
