// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* As much of SPANK as the plugin uses, for tests without Slurm. */
#ifndef STUB_SPANK_H
#define STUB_SPANK_H

#include <slurm/slurm_version.h>

typedef struct spank_handle *spank_t;

typedef enum {
	ESPANK_SUCCESS = 0,
	ESPANK_ERROR = 3000,
	ESPANK_BAD_ARG,
	ESPANK_ENV_NOEXIST,
	ESPANK_NOSPACE,
	ESPANK_NOT_REMOTE,
	ESPANK_NOT_AVAIL,
} spank_err_t;

typedef enum {
	S_JOB_UID,
	S_JOB_GID,
	S_JOB_ID,
	S_JOB_STEPID,
	S_JOB_TOTAL_TASK_COUNT,
	S_JOB_ARGV,
	S_JOB_ENV,
	S_JOB_SUPPLEMENTARY_GIDS,
	S_TASK_ID,
	S_TASK_GLOBAL_ID,
} spank_item_t;

typedef enum {
	S_CTX_ERROR,
	S_CTX_LOCAL,
	S_CTX_REMOTE,
	S_CTX_ALLOCATOR,
	S_CTX_SLURMD,
	S_CTX_JOB_SCRIPT,
} spank_context_t;

struct spank_option {
	char *name;
	char *arginfo;
	char *usage;
	int has_arg;
	int val;
	int (*cb)(int val, const char *optarg, int remote);
};

const char *spank_strerror(spank_err_t err);
spank_context_t spank_context(void);
spank_err_t spank_option_register(spank_t sp, struct spank_option *opt);
spank_err_t spank_option_getopt(spank_t sp, struct spank_option *opt, char **optarg);
spank_err_t spank_get_item(spank_t sp, spank_item_t item, ...);
spank_err_t spank_getenv(spank_t sp, const char *var, char *buf, int len);
spank_err_t spank_setenv(spank_t sp, const char *var, const char *val, int overwrite);
spank_err_t spank_unsetenv(spank_t sp, const char *var);
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 11, 0)
spank_err_t spank_prepend_task_argv(spank_t sp, int argc, const char *argv[]);
#endif
void slurm_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void slurm_info(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define SPANK_PLUGIN(name, version)               \
	const char plugin_name[] = #name;         \
	const char plugin_type[] = "spank";       \
	const unsigned int plugin_version = SLURM_VERSION_NUMBER; \
	const unsigned int spank_plugin_version = version;

int slurm_spank_init(spank_t sp, int argc, char **argv);
int slurm_spank_init_post_opt(spank_t sp, int argc, char **argv);
int slurm_spank_task_init_privileged(spank_t sp, int argc, char **argv);
int slurm_spank_task_init(spank_t sp, int argc, char **argv);
int slurm_spank_job_epilog(spank_t sp, int argc, char **argv);

#endif
