// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * The plugin in sbatch, salloc and srun. The plugin reads the command line of its process, so the tests
 * run this program again with the command lines of Slurm's programs; submit then acts as these programs.
 */
#define _GNU_SOURCE
#include "stub.h"

#include <err.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* call is a run of sbatch, salloc or srun. */
static struct call {
	char *argv[10];
	const char *variable[2];	  /* in the environment */
	const char *directive[2];	  /* option of a #SBATCH line */
	const char *option[2], *more[2]; /* of the command line, in the form of Slurm */
	const char *argument;		  /* in plugstack.conf */
	int program;			  /* of srun: its place in argv */
} call;

static void put_variable(const char *name, const char *value)
{
	if (value)
		setenv(name, value, 1);
}

static void become_call(void)
{
	char number[16];

	put_variable("STUB_SUBMIT", "1");
	put_variable(call.variable[0] ? call.variable[0] : "STUB_NONE", call.variable[0] ? call.variable[1] : NULL);
	put_variable("STUB_DIRECTIVE", call.directive[0]);
	put_variable("STUB_DIRECTIVE_VALUE", call.directive[1]);
	put_variable("STUB_OPTION", call.option[0]);
	put_variable("STUB_OPTION_VALUE", call.option[1]);
	put_variable("STUB_MORE", call.more[0]);
	put_variable("STUB_MORE_VALUE", call.more[1]);
	put_variable("STUB_ARGUMENT", call.argument);
	snprintf(number, sizeof(number), "%d", call.program);
	put_variable("STUB_OPTIND", number);
	execv("/proc/self/exe", call.argv);
	err(1, "exec");
}

static void option_of(const char *name, const char *value)
{
	if (getenv(name) && give(getenv(name), getenv(value)))
		exit(3);
}

static void print_said(void)
{
	fprintf(stderr, "said=%s\n", slurm.said);
}

/* Prints the facts that the tests check on standard error. */
int submit(void)
{
	const bool srun = strcmp(program_invocation_short_name, "srun") == 0;
	static const char forwarded[] = "SLURM_SPANK__SLURM_SPANK_OPTION_singularity_singularity";
	const char *text;
	int before;

	if (!getenv("STUB_ARGUMENT"))
		load(srun ? S_CTX_LOCAL : S_CTX_ALLOCATOR, NULL);
	else
		load(srun ? S_CTX_LOCAL : S_CTX_ALLOCATOR, getenv("STUB_ARGUMENT"), NULL);
	option_of("STUB_DIRECTIVE", "STUB_DIRECTIVE_VALUE");
	text = getenv("SBATCH_OPEN_MODE");
	fprintf(stderr, "mode=%s\n", text ? text : "none");
	if (getenv(forwarded) && give("singularity", getenv(forwarded)))
		print_said(), exit(3);
	option_of("STUB_OPTION", "STUB_OPTION_VALUE");
	option_of("STUB_MORE", "STUB_MORE_VALUE");
	optind = atoi(getenv("STUB_OPTIND"));
	before = environment_changes;
	atexit(print_said);
	if (post_opt())
		return (4);
	text = getenv("SBATCH_OPEN_MODE");
	fprintf(stderr, "after=%s\nforwarded=%s\nchanges=%d\n", text ? text : "none",
		getenv(forwarded) ? getenv(forwarded) : "none", before);

	return (0);
}

/* Run the call. Returns its exit code. */
static int run_call(char said[4096])
{
	const int status = in_child(become_call, said, 4096);

	if (!WIFEXITED(status))
		errx(1, "the call ended with status %#x, want an exit code: %s", status, said);

	return (WEXITSTATUS(status));
}

/*
 * The log of a job that asks for the plugin, in any way, is appended to; for other jobs the mode
 * stays as it is.
 */
static void open_mode(void)
{
	static const struct {
		struct call call;
		const char *mode;
		int changes; /* of the environment */
	} rows[] = {
		{ { .argv = { "sbatch", "job.sh" } }, "mode=none", 0 },
		{ { .argv = { "sbatch", "-N", "2", "job.sh", "--singularity" } }, "mode=none", 0 },
		{ { .argv = { "sbatch", "--singularity", "job.sh" }, .option = { "singularity" } }, "mode=append", 1 },
		{ { .argv = { "sbatch", "-N", "2", "--singularity-gpus=2" }, .option = { "singularity-gpus", "2" } },
		  "mode=append", 1 },
		{ { .argv = { "sbatch", "job.sh" }, .directive = { "singularity" } }, "mode=append", 1 },
		{ { .argv = { "sbatch", "job.sh" }, .directive = { "singularity-gpus", "2" } }, "mode=append", 1 },
		{ { .argv = { "sbatch", "job.sh" }, .directive = { "singularity", "off" } }, "mode=none", 0 },
		{ { .argv = { "sbatch", "--singularity=off", "job.sh" }, .directive = { "singularity" }, .option = { "singularity", "off" } },
		  "mode=none", 0 },
		{ { .argv = { "sbatch", "job.sh" }, .variable = { "SINGULARITY_SLURM", "1" } }, "mode=append", 2 },
		{ { .argv = { "sbatch", "job.sh" }, .variable = { "SINGULARITY_SLURM", "0" } }, "mode=none", 0 },
		{ { .argv = { "sbatch", "job.sh" }, .variable = { "SINGULARITY_SLURM", "" } }, "mode=none", 0 },
		{ { .argv = { "sbatch", "--singularity=off", "job.sh" }, .variable = { "SINGULARITY_SLURM", "1" }, .option = { "singularity", "off" } },
		  "mode=none", 1 },
		{ { .argv = { "sbatch", "job.sh" }, .variable = { "SLURM_SPANK__SLURM_SPANK_OPTION_singularity_singularity_gpus", "2" } },
		  "mode=append", 1 },
		{ { .argv = { "sbatch", "job.sh" }, .variable = { "SLURM_SPANK__SLURM_SPANK_OPTION_singularity_singularity", "off" } },
		  "mode=none", 0 },
	};
	char said[4096], changes[32];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
		call = rows[i].call;
		if (run_call(said))
			errx(1, "the call in row %zu fails: %s", i, said);
		CONTAINS(said, rows[i].mode);
		if (!rows[i].call.variable[0] || strcmp(rows[i].call.variable[0], "SBATCH_OPEN_MODE"))
			CONTAINS(said, "after=none");
		snprintf(changes, sizeof(changes), "changes=%d\n", rows[i].changes);
		CONTAINS(said, changes);
		CONTAINS(said, "said=\n");
	}
}

static void emptied_log(void)
{
	static const struct {
		struct call call;
		const char *said;
	} rows[] = {
		{ { .argv = { "sbatch", "--singularity", "job.sh" }, .variable = { "SBATCH_OPEN_MODE", "truncate" } },
		  "mode=truncate\nafter=truncate" },
		{ { .argv = { "sbatch", "--singularity", "job.sh" }, .variable = { "SBATCH_OPEN_MODE", "truncate" } },
		  "said=singularity: --open-mode=truncate: whenever the job starts again, Slurm empties its log" },
		{ { .argv = { "sbatch", "--singularity", "--open-mode=truncate", "job.sh" } }, "said=singularity: --open-mode=truncate: " },
		{ { .argv = { "sbatch", "--singularity", "--open", "t", "job.sh" } }, "said=singularity: --open-mode=truncate: " },
		{ { .argv = { "sbatch", "--singularity", "--open-mode=append", "job.sh" }, .variable = { "SBATCH_OPEN_MODE", "truncate" } },
		  "said=\n" },
		{ { .argv = { "sbatch", "--singularity", "job.sh", "--open-mode=truncate" } }, "said=\n" },
		{ { .argv = { "sbatch", "--singularity", "--ope", "append", "job.sh" } }, "said=\n" },
	};
	char said[4096];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
		call = rows[i].call;
		call.option[0] = "singularity";
		if (run_call(said))
			errx(1, "the call in row %zu fails: %s", i, said);
		CONTAINS(said, rows[i].said);
	}
}

static void by_default(void)
{
	char said[4096];

	call = (struct call){ .argv = { "sbatch", "job.sh" }, .variable = { "SINGULARITY_SLURM", "gpus=2,interval=10m" } };
	CHECK(run_call(said) == 0);
	CONTAINS(said, "forwarded=gpus=2,interval=10m");
	call.variable[1] = "1";
	CHECK(run_call(said) == 0);
	CONTAINS(said, "forwarded=on");
	call.variable[1] = "colour=red";
	CHECK(run_call(said) == 3);
	CONTAINS(said, "said=singularity: SINGULARITY_SLURM=colour=red: unknown; accepted: on, off, or a list");
}

/* A script with lines for sbatch, and with text that is not for sbatch. */
static char script_path[64];
static const char bundle_script[] = "#!/bin/sh\n#SBATCHES --container=/no-wrong\n\n# --container=/no-wrong\n"
			     "#SBATCH -N1 --container \"/no-such\" # --container=/no-wrong\n"
			     "true\n#SBATCH --container=/no-wrong\n";

static void write_script(const char *script)
{
	FILE *f;

	snprintf(script_path, sizeof(script_path), "/tmp/stub-script-%d", (int)getpid());
	f = fopen(script_path, "w");
	if (!f || fputs(script, f) < 0 || fclose(f))
		err(1, "%s", script_path);
}

static void refused_or_told(void)
{
	static const struct {
		struct call call;
		int code;
		const char *said;
	} rows[] = {
		{ { .argv = { "sbatch", "job.sh" }, .argument = "colour=red" }, 0, "said=\n" },
		{ { .argv = { "sbatch", "--singularity", "job.sh" }, .argument = "colour=red", .option = { "singularity" } }, 1,
		  "singularity: plugstack.conf: colour=red: accepted are" },
		{ { .argv = { "srun", "--singularity", "true" }, .argument = "colour=red", .option = { "singularity" }, .program = 2 }, 1,
		  "singularity: plugstack.conf: colour=red: accepted are" },
		{ { .argv = { "srun", "true" }, .argument = "colour=red", .program = 1 }, 0, "said=\n" },
		{ { .argv = { "srun", "--pty", "bash" }, .program = 2 }, 0, "said=\n" },
		{ { .argv = { "srun", "--singularity", "--pty", "bash" }, .option = { "singularity" }, .program = 3 }, 1,
		  "singularity: --pty: a terminal cannot be captured" },
		{ { .argv = { "srun", "--pt", "--singularity", "bash" }, .option = { "singularity" }, .program = 3 }, 1,
		  "singularity: --pty" },
		{ { .argv = { "srun", "--pty=0", "bash" }, .option = { "singularity" }, .program = 2 }, 1, "singularity: --pty" },
		{ { .argv = { "srun", "--singularity", "ssh", "--pty" }, .option = { "singularity" }, .program = 2 }, 0, "said=\n" },
		{ { .argv = { "srun", "--partition", "x", "bash" }, .option = { "singularity" }, .program = 3 }, 0, "said=\n" },
		{ { .argv = { "srun", "--interactive", "--pty", "bash" }, .option = { "singularity" }, .program = 3 }, 0, "said=\n" },
		{ { .argv = { "sbatch", "--singularity", "--container", "/usr", "job.sh" }, .option = { "singularity" } }, 0, "said=\n" },
		{ { .argv = { "sbatch", "--container=/no-bundle", "job.sh" } }, 0, "said=\n" },
		{ { .argv = { "sbatch", "--singularity", "--container=/no-bundle", "job.sh" }, .option = { "singularity" } }, 1,
		  "singularity: --container=/no-bundle: No such file or directory; accepted: the absolute path of an OCI bundle" },
		{ { .argv = { "sbatch", "--singularity", "--container", "../../../../../../../../usr", "job.sh" }, .option = { "singularity" } },
		  1, "usr: a relative path, which nodes do not find: write --container=/usr\n" },
		{ { .argv = { "sbatch", "--singularity", "job.sh", "--container=/no-bundle" }, .option = { "singularity" } }, 0, "said=\n" },
		{ { .argv = { "sbatch", "--singularity", "--container=/usr", "job.sh" }, .variable = { "SBATCH_CONTAINER", "/no-bundle" },
		    .option = { "singularity" } }, 0, "said=\n" },
		{ { .argv = { "sbatch", "--singularity", "job.sh" }, .variable = { "SBATCH_CONTAINER", "/etc/passwd" },
		    .option = { "singularity" } }, 1, "singularity: --container=/etc/passwd: Not a directory" },
		{ { .argv = { "sbatch", script_path }, .option = { "singularity" } }, 1, "singularity: --container=/no-such: No such" },
		{ { .argv = { "srun", "--singularity", "--container", "/no-bundle", "true" }, .option = { "singularity" }, .program = 4 }, 1,
		  "singularity: --container=/no-bundle: No such file or directory" },
		{ { .argv = { "srun", "--singularity", "x", "--container=/no-bundle" }, .option = { "singularity" }, .program = 2 }, 0, "said=\n" },
		{ { .argv = { "srun", "--pty", "bash" }, .option = { "singularity" }, .more = { "singularity", "off" }, .program = 2 }, 0,
		  "said=\n" },
		{ { .argv = { "sbatch", "--singularity-lease=812", "job.sh" }, .option = { "singularity-lease", "812" } }, 0, "said=\n" },
		{ { .argv = { "sbatch", "--singularity-lease=99", "job.sh" }, .option = { "singularity-lease", "99" } }, 1,
		  "singularity: --singularity-lease=99: Slurm knows no such job; accepted: the number of a running job of yours" },
		{ { .argv = { "sbatch", "--singularity=lease=99", "job.sh" }, .option = { "singularity", "lease=99" } }, 1,
		  "singularity: --singularity-lease=99: Slurm knows no such job" },
		{ { .argv = { "sbatch", "--singularity-lease=9", "job.sh" }, .option = { "singularity-lease", "9" } }, 0, "said=\n" },
		{ { .argv = { "salloc", "true" } }, 0, "said=\n" },
		{ { .argv = { "salloc", "--singularity", "true" }, .option = { "singularity" } }, 0,
		  "said=singularity: what salloc starts runs unprotected: Slurm requeues batch jobs only; "
		  "for a shell that is protected: singctl session start\n" },
		{ { .argv = { "salloc", "--singularity=off" }, .option = { "singularity", "off" } }, 0, "said=\n" },
		{ { .argv = { "salloc", "--singularity-lease=812" }, .option = { "singularity-lease", "812" } }, 0, "said=\n" },
#if SLURM_VERSION_NUMBER < SLURM_VERSION_NUM(23, 11, 0)
		{ { .argv = { "srun", "--multi-prog", "f" }, .option = { "singularity" }, .program = 2 }, 1,
		  "singularity: --multi-prog needs Slurm 23.11" },
#else
		{ { .argv = { "srun", "--multi-prog", "f" }, .option = { "singularity" }, .program = 2 }, 0, "said=\n" },
#endif
	};
	char said[4096];

	write_script(bundle_script);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
		call = rows[i].call;
		if (run_call(said) != rows[i].code)
			errx(1, "the call in row %zu has another exit code: %s", i, said);
		CONTAINS(said, rows[i].said);
	}
	unlink(script_path);
}

/*
 * A range of GPUs that makes no sense for the GPUs for which the job asks is refused, and no range that might. Of a
 * range without GPUs the user is told.
 */
static void senseless_range(void)
{
#define RANGE(text) .option = { "singularity-gpus", text }
#define NONE "the job asks Slurm for no GPU; without --gpus-per-node=N or the like this option does nothing"
	static const struct {
		struct call call;
		const char *said; /* NONE: and nothing is refused */
	} rows[] = {
		{ { .argv = { "sbatch", "--gpus=4", "--singularity-gpus=6-8", "--wrap=true" }, RANGE("6-8") },
		  "--singularity-gpus=6-8: the job asks Slurm for 4 GPUs, and MIN can be no more: write --singularity-gpus=4-8" },
		{ { .argv = { "sbatch", "-G", "a100:1", "--singularity-gpus", "2", "--wrap=true" }, RANGE("2") },
		  "--singularity-gpus=2-2: the job asks Slurm for 1 GPU, and MIN can be no more: write --singularity-gpus=1-2" },
		{ { .argv = { "sbatch", "-N2", "--gpus-per-node=2", "--singularity-gpus=5", "--wrap=true" }, RANGE("5") }, "write --singularity-gpus=4-5" },
		{ { .argv = { "sbatch", "--gres=nic:1,gpu:a100:2", "--singularity-gpus=3-4", "--wrap=true" }, RANGE("3-4") }, "asks Slurm for 2 GPUs" },
		{ { .argv = { "sbatch", "-n4", "--gpus-per-task=1", "--singularity-gpus=5-6", "--wrap=true" }, RANGE("5-6") }, "asks Slurm for 4 GPUs" },
		{ { .argv = { "sbatch", "--singularity-gpus=3", "--wrap=true" }, .variable = { "SBATCH_GPUS", "2" }, RANGE("3") }, "asks Slurm for 2 GPUs" },
		{ { .argv = { "sbatch", "--singularity-gpus=1-4", "--wrap=true" }, RANGE("1-4") }, "--singularity-gpus=1-4: " NONE },
		{ { .argv = { "sbatch", "--singularity=gpus=1-4", "-J", "x", "--wrap=true" }, .option = { "singularity", "gpus=1-4" } }, NONE },
		{ { .argv = { "sbatch", "--gpus=4", "--singularity-gpus=5", script_path }, RANGE("5") }, "asks Slurm for 4 GPUs" },
		{ { .argv = { "sbatch", script_path }, RANGE("4") }, "asks Slurm for 3 GPUs" },
		/* The smallest and the largest that make sense. */
		{ { .argv = { "sbatch", "--gpus=4", "--singularity-gpus=4-8", "--wrap=true" }, RANGE("4-8") }, NULL },
		{ { .argv = { "sbatch", "--gpus=4", "--singularity-gpus=2", "--wrap=true" }, RANGE("2") }, NULL },
		{ { .argv = { "sbatch", script_path }, RANGE("3") }, NULL },
		{ { .argv = { "sbatch", "--gpus=1", "--gpus=4", "--singularity-gpus=4", "--wrap=true" }, RANGE("4") }, NULL },
		{ { .argv = { "sbatch", "-n4", "--gpus-per-node=1", "--singularity-gpus=4", "--wrap=true" }, RANGE("4") }, NULL },
		{ { .argv = { "sbatch", "-N1-4", "--gres=gpu", "--singularity-gpus=4", "--wrap=true" }, RANGE("4") }, NULL },
		/* Words that do not tell how many. */
		{ { .argv = { "sbatch", "--gpus-per-n=4", "--singularity-gpus=4", "--wrap=true" }, RANGE("4") }, NULL },
		{ { .argv = { "sbatch", "-p", "GPU", "--singularity-gpus=4", "--wrap=true" }, RANGE("4") }, NULL },
		{ { .argv = { "sbatch", "-w", "n[1-4]", "--gpus-per-node=1", "--singularity-gpus=4", "--wrap=true" }, RANGE("4") }, NULL },
		{ { .argv = { "sbatch", "--exclusive", "--singularity-gpus=4", "--wrap=true" }, RANGE("4") }, NULL },
		{ { .argv = { "sbatch", "--tres-per-task=gres:gpu:4", "--singularity-gpus=4", "--wrap=true" }, RANGE("4") }, NULL },
		{ { .argv = { "sbatch", "--singularity-gpus=4" }, RANGE("4") }, NULL },
		{ { .argv = { "sbatch", "--singularity-gpus=4", "/no-such-script" }, RANGE("4") }, NULL },
		/* A range that this job's user has not written beside it. */
		{ { .argv = { "sbatch", "--wrap=true" }, .variable = { "SINGULARITY_SLURM", "gpus=4" } }, NULL },
		{ { .argv = { "sbatch", "--wrap=true" }, RANGE("4") }, NULL },
		{ { .argv = { "salloc", "--singularity-gpus=4" }, RANGE("4") }, NULL },
	};
	char said[4096];

	write_script("#!/bin/sh\n#SBATCH --gpus=3 --singularity-gpus=4\ntrue --gpus=9\n");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
		call = rows[i].call;
		if (run_call(said) != (rows[i].said && !strstr(rows[i].said, NONE) ? 1 : 0))
			errx(1, "the call in row %zu has another exit code: %s", i, said);
		if (rows[i].said)
			CONTAINS(said, rows[i].said);
		else if (strstr(said, "asks Slurm for"))
			errx(1, "the call in row %zu says: %s", i, said);
	}
	unlink(script_path);
}

const struct test submit_tests[] = {
	{ "sbatch's open mode", open_mode },
	{ "emptied log", emptied_log },
	{ "default of the environment", by_default },
	{ "refused or told at submission", refused_or_told },
	{ "a range of GPUs without sense", senseless_range },
	{ NULL, NULL },
};
