// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "contexts.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <slurm/slurm_version.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capsule.h"
#include "config.h"
#include "container.h"
#include "environment.h"
#include "exit_codes.h"
#include "log.h"
#include "options.h"
#include "pyxis.h"
#include "signals.h"
#include "successor.h"

#ifndef SING_PLUGIN_VERSION
#define SING_PLUGIN_VERSION "unknown"
#endif

/* Slurm's steps that are no srun's, as S_JOB_STEPID numbers them. */
#define STEP_BATCH ((uint32_t)-5)
#define STEP_LAST_OF_SRUN ((uint32_t)-16) /* all steps with higher numbers are without an srun */

/*
 * The variable with the site's choice of BLAS. A task that has it already keeps its value: the user has set it, or the
 * batch script began before the site changed its choice.
 */
#define BLAS "SINGULARITY_SLURM_BLAS"

enum { MAX_WARDEN_OPTIONS = 8 };

/*
 * State that a hook of a task leaves for the next hook. From the fork on, the process belongs to
 * the task alone, so there is a single task.
 */
static struct {
	struct config config;
	bool batch;
	bool container; /* Slurm has a container for the task */
	int local; /* the task's number on this node */
	pid_t successor; /* of a task that pyxis puts into a container; 0: none, or this process is the successor */
	int sock; /* between the task's process and its successor */
	struct fate fate;
} task;

void stepd_init(spank_t sp, int argc, char **argv)
{
	config_read(&task.config, argc, argv);
	options_register(sp, NULL);
}

/* --- as root --- */

static void add_item(struct message *m, spank_t sp, const char *key, spank_item_t item)
{
	uint32_t value = 0;

	if (spank_get_item(sp, item, &value) == ESPANK_SUCCESS)
		message_add_number(m, key, value);
}

static void add_variable(struct message *m, spank_t sp, const char *key, const char *name)
{
	char value[256];

	if (spank_getenv(sp, name, value, sizeof(value)) == ESPANK_SUCCESS)
		message_add(m, key, value);
}

/* The groups with which the files of the task's container are opened. */
static void add_groups(struct message *m, spank_t sp)
{
	char groups[8 * 1024];
	gid_t *gids = NULL;
	size_t used = 0;
	int n = 0;

	groups[0] = '\0';
	if (spank_get_item(sp, S_JOB_SUPPLEMENTARY_GIDS, &gids, &n) == ESPANK_SUCCESS) {
		for (int i = 0; i < n && used < sizeof(groups) - 16; ++i)
			used += (size_t)snprintf(groups + used, sizeof(groups) - used, "%u ", (unsigned int)gids[i]);
	}
	message_add(m, SING_KEY_GROUPS, groups);
}

/* The container that Slurm was given for this task. */
static void add_container(struct message *m, spank_t sp)
{
	char bundle[PATH_MAX];

	if (spank_getenv(sp, "SLURM_CONTAINER", bundle, sizeof(bundle)) != ESPANK_SUCCESS || !bundle[0])
		return;
	task.container = true;
	message_add(m, SING_KEY_CONTAINER, bundle);
	add_groups(m, sp);
}

static void compose_request(struct message *m, spank_t sp, uint32_t step)
{
	char cwd[PATH_MAX];
	char **argv = NULL;
	int argc = 0;
	uid_t uid = (uid_t)-1;
	gid_t gid = (gid_t)-1;

	spank_get_item(sp, S_JOB_UID, &uid);
	spank_get_item(sp, S_JOB_GID, &gid);
	spank_get_item(sp, S_JOB_ARGV, &argc, &argv);
	message_begin(m, SING_JOIN);
	message_add(m, SING_KEY_VERSION, SING_WIRE_VERSION);
	message_add(m, SING_KEY_PLUGIN, SING_PLUGIN_VERSION);
	add_item(m, sp, SING_KEY_JOB, S_JOB_ID);
	if (task.batch)
		message_add(m, SING_KEY_STEP, SING_STEP_BATCH);
	else
		message_add_number(m, SING_KEY_STEP, step);
	add_item(m, sp, SING_KEY_TASK, S_TASK_GLOBAL_ID);
	message_add_number(m, SING_KEY_LOCAL, (unsigned long)task.local);
	add_item(m, sp, SING_KEY_TASKS, S_JOB_TOTAL_TASK_COUNT);
	message_add_number(m, SING_KEY_UID, uid);
	message_add_number(m, SING_KEY_GID, gid);
	/*
	 * For an inner srun this is the count that the batch script got. The batch step gets its
	 * own count only after this hook, and S_SLURM_RESTART_COUNT is always 0.
	 */
	add_variable(m, sp, SING_KEY_RESTARTS, "SLURM_RESTART_COUNT");
	add_variable(m, sp, SING_KEY_KEY, "SINGULARITY_SLURM_STEP");
	if (task.batch && argc > 0)
		message_add(m, SING_KEY_SCRIPT, argv[0]);
	if (getcwd(cwd, sizeof(cwd)))
		message_add(m, SING_KEY_CWD, cwd);
	message_add(m, SING_KEY_WARDEN, task.config.warden);
	if (task.config.shim[0])
		message_add(m, SING_KEY_SHIM, task.config.shim);
	add_container(m, sp);
	options_add(m);
}

/* Why this task must not run, without asking proxyd, or NULL. */
static const char *why_refused(void)
{
	if (options_wrong())
		return (options_wrong());
	if (task.config.wrong[0])
		return (task.config.wrong);
	if (access(task.config.warden, X_OK))
		return ("the warden is not installed on this node, or plugstack.conf names another place for it");

	return (NULL);
}

__attribute__((format(printf, 1, 2))) static void refuse_task(const char *format, ...)
{
	va_list args;

	task.fate.kind = REFUSED;
	va_start(args, format);
	vsnprintf(task.fate.why, sizeof(task.fate.why), format, args);
	va_end(args);
}

/* Be the successor of the task's process (successor.h), up to the start of the warden. */
static _Noreturn void run_as_successor(spank_t sp, struct message *request)
{
	struct handover h;
	const char *why = successor_wait(task.sock, task.batch, &h);

	if (!why) {
		add_groups(request, sp);
		why = successor_add_container(request);
	}
	task.container = true;
	if (why)
		refuse_task("%s", why);
	else
		capsule_enter(&task.config, request, &task.fate);
	if (successor_become_user(sp, &h)) {
		dprintf(STDERR_FILENO, "singularity: the task cannot become its user's: %s\n", strerror(errno));
		_exit(EXIT_NOT_STARTED);
	}
	sigprocmask(SIG_SETMASK, &h.mask, NULL);
	stepd_task_as_user(sp);
	successor_step_back(task.sock);
}

void stepd_task_as_root(spank_t sp)
{
	static struct message request;
	const char *why;
	uint32_t step;

	if (!options_on() || spank_get_item(sp, S_JOB_STEPID, &step) != ESPANK_SUCCESS)
		return;
	task.batch = step == STEP_BATCH;
	if (!task.batch && step > STEP_LAST_OF_SRUN)
		return; /* extern and interactive steps have no program of the job */
	spank_get_item(sp, S_TASK_ID, &task.local);
	why = why_refused();
	if (why) {
		refuse_task("%s", why);
		return;
	}
	compose_request(&request, sp, step);
	if (task.container || !pyxis_has_container(sp)) {
		capsule_enter(&task.config, &request, &task.fate);
		return;
	}
	task.successor = successor_fork(&task.sock);
	if (task.successor == 0)
		run_as_successor(sp, &request);
	if (task.successor < 0) {
		task.successor = 0;
		refuse_task("the task's container cannot be left: %s", strerror(errno));
	}
}

/* --- as the user --- */

/* Use the warden and the shim of the capsule's kit instead of this node's. */
static void use_kit(void)
{
	const char *kit = message_get(&task.fate.reply.message, SING_KEY_KIT);

	if (!kit || !*kit)
		return;
	snprintf(task.config.warden, sizeof(task.config.warden), "%s/%s", kit, SING_KIT_WARDEN);
	if (task.config.shim[0])
		snprintf(task.config.shim, sizeof(task.config.shim), "%s/%s", kit, SING_KIT_SHIM);
}

static void set_variables(spank_t sp)
{
	const struct message *m = &task.fate.reply.message;
	const size_t n = strlen(SING_KEY_ENV);

	for (const char *at = message_next(m, NULL); at; at = message_next(m, at)) {
		char name[256], own[16];
		const char *equals = strchr(at, '=');

		if (strncmp(at, SING_KEY_ENV, n) == 0 &&
		    snprintf(name, sizeof(name), "%.*s", (int)(equals - at - (long)n), at + n) < (int)sizeof(name)) {
			if (strcmp(name, "LD_LIBRARY_PATH") == 0)
				add_path(sp, name, equals + 1, FIRST);
			else if (strcmp(name, BLAS) != 0 || spank_getenv(sp, name, own, sizeof(own)) == ESPANK_ENV_NOEXIST)
				set_variable(sp, name, equals + 1);
		}
	}
	/*
	 * The shim is put behind all libraries that the user preloads. It is not preloaded in a
	 * container, which does not have its file, and may have another C library.
	 */
	if (task.config.shim[0] && task.fate.root_fd < 0)
		add_path(sp, "LD_PRELOAD", task.config.shim, LAST);
	else if (task.config.shim[0])
		drop_path(sp, "LD_PRELOAD", task.config.shim);
	/* The key is of this step's srun: an srun within the step is another srun. */
	spank_unsetenv(sp, "SINGULARITY_SLURM_STEP");
	pyxis_forget_note(sp);
}

/*
 * Make the warden the task's program, with options and the program itself as its
 * arguments. Options hold no space.
 */
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 11, 0)
static void put_warden(spank_t sp, const char *const *options, int n)
{
	const char *argv[MAX_WARDEN_OPTIONS + 2];
	spank_err_t err;
	int argc = 0;

	argv[argc++] = task.config.warden;
	for (int i = 0; i < n; ++i)
		argv[argc++] = options[i];
	argv[argc++] = "--";
	err = spank_prepend_task_argv(sp, argc, argv);
	if (err != ESPANK_SUCCESS) {
		dprintf(STDERR_FILENO, "singularity: the warden cannot be started: %s\n", spank_strerror(err));
		_exit(EXIT_NOT_STARTED);
	}
}
#else
/*
 * SPANK has no call for this, but this is the array that execve gets, in the task's own process.
 * The array cannot grow, so the other arguments go into the environment, from which the warden
 * takes them.
 */
static void put_warden(spank_t sp, const char *const *options, int n)
{
	char text[256];
	size_t used = 0;
	char **argv;
	int argc;

	if (spank_get_item(sp, S_JOB_ARGV, &argc, &argv) != ESPANK_SUCCESS || argc < 1) {
		dprintf(STDERR_FILENO, "singularity: the warden cannot be started: the task has no program\n");
		_exit(EXIT_NOT_STARTED);
	}
	for (int i = 0; i < n; ++i)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s", i ? " " : "", options[i]);
	set_variable(sp, "SINGULARITY_SLURM_WARDEN", text);
	set_variable(sp, "SINGULARITY_SLURM_ARGV0", argv[0]);
	argv[0] = task.config.warden;
}
#endif

static void start_warden(spank_t sp)
{
	char name[sizeof("--name=") + NAME_SIZE];
	char proc[sizeof("--proc-fd=") + 12];
	char root[sizeof("--root-fd=") + 12];
	char cwd[sizeof("--root-cwd=") + PATH_MAX];
	const char *options[MAX_WARDEN_OPTIONS];
	const char *in = message_get(&task.fate.reply.message, SING_KEY_ROOT_CWD);
	int n = 0;

	snprintf(name, sizeof(name), "--name=%s", task.fate.name);
	options[n++] = name;
	if (task.fate.proc_fd >= 0) {
		snprintf(proc, sizeof(proc), "--proc-fd=%d", task.fate.proc_fd);
		options[n++] = proc;
	}
	/* Slurm signals all processes of a step, but of a batch script only the first. */
	if (!task.batch)
		options[n++] = "--all";
	if (task.fate.restore)
		options[n++] = "--restore";
	if (task.fate.terminated)
		options[n++] = "--terminated";
	if (task.fate.root_fd >= 0) {
		snprintf(root, sizeof(root), "--root-fd=%d", task.fate.root_fd);
		options[n++] = root;
		snprintf(cwd, sizeof(cwd), "--root-cwd=%s", in && *in ? in : "/");
		options[n++] = cwd;
	}
	if (task.container) {
		container_execute(sp, task.config.warden, options, n,
				  message_get(&task.fate.reply.message, SING_KEY_ROOT_SCRIPT));
		_exit(EXIT_NOT_STARTED);
	}
	put_warden(sp, options, n);
}

void stepd_task_as_user(spank_t sp)
{
	const struct fate *fate = &task.fate;
	int status;

	if (task.successor > 0) {
		if (successor_take_turn(sp, task.sock, task.successor, task.batch, &status))
			end_like(status);
		return; /* unprotected, and the user was told why */
	}
	/* Slurm ends the job: end this process. A program in a capsule gets the signal through its warden instead. */
	if (fate->terminated && (fate->kind == PLAIN || fate->kind == REFUSED))
		end_like(SIGTERM);
	switch (fate->kind) {
	case PLAIN:
		if (fate->why[0] && task.local == 0)
			dprintf(STDERR_FILENO, "singularity: this job runs unprotected: %s\n", fate->why);
		break;
	case JOINED:
		use_kit();
		set_variables(sp);
		number_devices(sp);
		start_warden(sp);
		break;
	case FINISHED:
		end_like(fate->status);
	case REFUSED:
		dprintf(STDERR_FILENO, "singularity: %s\n", fate->why);
		_exit(EXIT_NOT_STARTED);
	}
}
