// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * The functions and types of Slurm's library that the plugin uses, as the header of each
 * release declares them.
 */
#ifndef STUB_SLURM_SLURM_H
#define STUB_SLURM_SLURM_H

#include <slurm/slurm_version.h>
#include <stdint.h>

enum { ESLURM_INVALID_JOB_ID = 2017 };

typedef struct job_info_msg job_info_msg_t;

extern void slurm_free_job_info_msg(job_info_msg_t *answer);

#if SLURM_VERSION_NUMBER < SLURM_VERSION_NUM(26, 5, 0)
extern int slurm_load_job(job_info_msg_t **answer, uint32_t job, uint16_t flags);
#else
typedef struct {
	uint64_t sluid;
	uint32_t job_id, step_het_comp, step_id;
} slurm_step_id_t;

extern int slurm_load_job(job_info_msg_t **answer, slurm_step_id_t job, uint16_t flags);

#ifdef SLURM_BACKWARD_COMPAT
inline static int slurm_load_job_jid(job_info_msg_t **answer, uint32_t job, uint16_t flags)
{
	slurm_step_id_t id = { .job_id = job };

	return (slurm_load_job(answer, id, flags));
}

#define slurm_load_job(answer, id, ...) \
	_Generic((id), slurm_step_id_t: slurm_load_job, default: slurm_load_job_jid)((answer), (id), __VA_ARGS__)
#endif
#endif

#endif
