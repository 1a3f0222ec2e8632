// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "stub.h"

#include <dlfcn.h>
#include <err.h>
#include <errno.h>
#include <slurm/slurm.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MAX = 64 };

struct slurm slurm;
int sockets, environment_changes;

static struct {
	int (*init)(spank_t, int, char **);
	int (*post_opt)(spank_t, int, char **);
	int (*as_root)(spank_t, int, char **);
	int (*as_user)(spank_t, int, char **);
	int (*epilog)(spank_t, int, char **);
	int argc;
	char *argv[MAX];
} plugin;

static struct spank_option options[MAX];
static int n_options;
static char *job_env[MAX];
static const char *epilog_options[MAX][2];
static int n_epilog;

/* --- calls of the C library by the plugin, which are counted --- */

int socket(int domain, int type, int protocol)
{
	++sockets;

	return ((int)syscall(SYS_socket, domain, type, protocol));
}

int setenv(const char *name, const char *value, int overwrite)
{
	static int (*real)(const char *, const char *, int);

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "setenv");
	++environment_changes;

	return (real(name, value, overwrite));
}

/* --- the plugin's life --- */

static void *find_symbol(void *lib, const char *name)
{
	void *f = dlsym(lib, name);

	if (!f)
		errx(1, "%s is not exported", name);

	return (f);
}

void load(spank_context_t context, ...)
{
	void *lib = dlopen(getenv("PLUGIN"), RTLD_NOW | RTLD_LOCAL);
	const char *arg;
	va_list args;

	if (!lib)
		errx(1, "%s", dlerror());
	if (dlsym(lib, "config_read") || dlsym(lib, "message_add"))
		errx(1, "the plugin exports a function that is none of SPANK's");
	*(void **)&plugin.init = find_symbol(lib, "slurm_spank_init");
	*(void **)&plugin.post_opt = find_symbol(lib, "slurm_spank_init_post_opt");
	*(void **)&plugin.as_root = find_symbol(lib, "slurm_spank_task_init_privileged");
	*(void **)&plugin.as_user = find_symbol(lib, "slurm_spank_task_init");
	*(void **)&plugin.epilog = find_symbol(lib, "slurm_spank_job_epilog");
	find_symbol(lib, "plugin_name");
	find_symbol(lib, "plugin_type");
	find_symbol(lib, "plugin_version");
	find_symbol(lib, "spank_plugin_version");
	va_start(args, context);
	while ((arg = va_arg(args, const char *)))
		plugin.argv[plugin.argc++] = strdup(arg);
	va_end(args);
	slurm.context = context;
	slurm.tasks = 1;
	if (context != S_CTX_JOB_SCRIPT && plugin.init(NULL, plugin.argc, plugin.argv))
		errx(1, "slurm_spank_init fails");
}

int give(const char *name, const char *value)
{
	for (int i = 0; i < n_options; ++i) {
		if (strcmp(options[i].name, name) == 0)
			return (options[i].cb(options[i].val, value, slurm.context == S_CTX_REMOTE));
	}
	errx(1, "--%s is not registered", name);
}

void give_to_epilog(const char *name, const char *value)
{
	epilog_options[n_epilog][0] = name;
	epilog_options[n_epilog++][1] = value;
}

int options_registered(void)
{
	return (n_options);
}

bool options_documented(void)
{
	for (int i = 0; i < n_options; ++i) {
		const char *name = options[i].name;

		if (!options[i].usage || strlen(options[i].usage) < 20) {
			warnx("--%s: its help has fewer than 20 characters", name);
			return (false);
		}
		/* Slurm has a buffer of 81 for the option and its argument. */
		if (!options[i].arginfo || strlen(name) + strlen(options[i].arginfo) > 70) {
			warnx("--%s: it has no value, or name and value have more than 70 characters", name);
			return (false);
		}
		/* The help of the first option names the keys that its list may have, which are the other options. */
		if (i > 0 && !strstr(options[0].usage, name + strlen("singularity-"))) {
			warnx("--%s: the help of --%s does not name it", name, options[0].name);
			return (false);
		}
	}

	return (true);
}

int post_opt(void)
{
	return (plugin.post_opt(NULL, plugin.argc, plugin.argv));
}

int task_as_root(void)
{
	return (plugin.as_root(NULL, plugin.argc, plugin.argv));
}

int task_as_user(void)
{
	return (plugin.as_user(NULL, plugin.argc, plugin.argv));
}

int epilog(void)
{
	return (plugin.epilog(NULL, plugin.argc, plugin.argv));
}

/* --- SPANK's functions --- */

const char *spank_strerror(spank_err_t e)
{
	return (e == ESPANK_SUCCESS ? "success" : "an error of the stub");
}

spank_context_t spank_context(void)
{
	return (slurm.context);
}

spank_err_t spank_option_register(spank_t sp, struct spank_option *opt)
{
	(void)sp;
	if (n_options == MAX)
		return (ESPANK_ERROR);
	options[n_options] = *opt;
	/* Slurm keeps copies: the plugin may free the texts of opt. */
	options[n_options++].name = strdup(opt->name);

	return (ESPANK_SUCCESS);
}

spank_err_t spank_option_getopt(spank_t sp, struct spank_option *opt, char **optarg)
{
	(void)sp;
	if (slurm.context != S_CTX_JOB_SCRIPT)
		return (ESPANK_NOT_AVAIL);
	for (int i = 0; i < n_epilog; ++i) {
		if (strcmp(epilog_options[i][0], opt->name) == 0) {
			*optarg = (char *)epilog_options[i][1];
			return (ESPANK_SUCCESS);
		}
	}

	return (ESPANK_ERROR);
}

static gid_t groups[] = { 1002, 2000 };

spank_err_t spank_get_item(spank_t sp, spank_item_t item, ...)
{
	va_list args;

	(void)sp;
	va_start(args, item);
	switch (item) {
	case S_JOB_UID:
		*va_arg(args, uid_t *) = 1001;
		break;
	case S_JOB_GID:
		*va_arg(args, gid_t *) = 1002;
		break;
	case S_JOB_ID:
		*va_arg(args, uint32_t *) = 812;
		break;
	case S_JOB_STEPID:
		*va_arg(args, uint32_t *) = (uint32_t)slurm.step;
		break;
	case S_JOB_TOTAL_TASK_COUNT:
		*va_arg(args, uint32_t *) = (uint32_t)slurm.tasks;
		break;
	case S_TASK_ID:
		*va_arg(args, int *) = slurm.local;
		break;
	case S_TASK_GLOBAL_ID:
		*va_arg(args, uint32_t *) = (uint32_t)slurm.task;
		break;
	case S_JOB_ARGV:
		*va_arg(args, int *) = slurm.argc;
		*va_arg(args, char ***) = slurm.argv;
		break;
	case S_JOB_ENV:
		*va_arg(args, char ***) = job_env;
		break;
	case S_JOB_SUPPLEMENTARY_GIDS:
		*va_arg(args, gid_t **) = groups;
		*va_arg(args, int *) = 2;
		break;
	}
	va_end(args);

	return (ESPANK_SUCCESS);
}

static char **job_variable(const char *name)
{
	const size_t n = strlen(name);
	char **at;

	for (at = job_env; *at; ++at) {
		if (strncmp(*at, name, n) == 0 && (*at)[n] == '=')
			break;
	}

	return (at);
}

void job_setenv(const char *name, const char *value)
{
	char **at = job_variable(name);

	free(*at);
	if (asprintf(at, "%s=%s", name, value) < 0)
		err(1, "job_setenv");
}

const char *job_getenv(const char *name)
{
	char **at = job_variable(name);

	return (*at ? *at + strlen(name) + 1 : NULL);
}

int job_variables(void)
{
	int n;

	for (n = 0; job_env[n]; ++n)
		;

	return (n);
}

spank_err_t spank_getenv(spank_t sp, const char *var, char *buf, int len)
{
	const char *value = job_getenv(var);

	(void)sp;
	if (!value)
		return (ESPANK_ENV_NOEXIST);

	return (snprintf(buf, (size_t)len, "%s", value) < len ? ESPANK_SUCCESS : ESPANK_NOSPACE);
}

spank_err_t spank_setenv(spank_t sp, const char *var, const char *val, int overwrite)
{
	(void)sp;
	++slurm.calls;
	if (overwrite || !job_getenv(var))
		job_setenv(var, val);

	return (ESPANK_SUCCESS);
}

spank_err_t spank_unsetenv(spank_t sp, const char *var)
{
	char **at = job_variable(var);

	(void)sp;
	++slurm.calls;
	free(*at);
	for (; *at; ++at)
		at[0] = at[1];

	return (ESPANK_SUCCESS);
}

#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 11, 0)
spank_err_t spank_prepend_task_argv(spank_t sp, int argc, const char *argv[])
{
	(void)sp;
	++slurm.calls;
	for (int i = 0; i < argc; ++i)
		slurm.prefix[slurm.n_prefix++] = strdup(argv[i]);

	return (ESPANK_SUCCESS);
}
#endif

static void note_said(const char *format, va_list args)
{
	const size_t used = strlen(slurm.said);

	vsnprintf(slurm.said + used, sizeof(slurm.said) - used, format, args);
}

/* Slurm knows job 812. For job 9, slurmctld does not answer. */
static int find_job(job_info_msg_t **answer, uint32_t job)
{
	if (job != 812) {
		errno = job == 9 ? EAGAIN : ESLURM_INVALID_JOB_ID;
		return (-1);
	}
	*answer = malloc(1);

	return (0);
}

#if SLURM_VERSION_NUMBER < SLURM_VERSION_NUM(26, 5, 0)
int slurm_load_job(job_info_msg_t **answer, uint32_t job, uint16_t flags)
{
	(void)flags;
	return (find_job(answer, job));
}
#else
int(slurm_load_job)(job_info_msg_t **answer, slurm_step_id_t job, uint16_t flags)
{
	(void)flags;
	return (find_job(answer, job.job_id));
}
#endif

void slurm_free_job_info_msg(job_info_msg_t *answer)
{
	free(answer);
}

void slurm_error(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	note_said(format, args);
	va_end(args);
}

void slurm_info(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	note_said(format, args);
	va_end(args);
}
