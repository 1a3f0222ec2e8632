// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#include "contexts.h"

SPANK_PLUGIN(singularity, 1)

int slurm_spank_init(spank_t sp, int argc, char **argv)
{
	switch (spank_context()) {
	case S_CTX_ALLOCATOR:
		alloc_init(sp, argc, argv);
		break;
	case S_CTX_LOCAL:
		srun_init(sp, argc, argv);
		break;
	case S_CTX_SLURMD:
		slurmd_init(argc, argv);
		break;
	case S_CTX_REMOTE:
		stepd_init(sp, argc, argv);
		break;
	default:
		break;
	}

	return (0);
}

int slurm_spank_init_post_opt(spank_t sp, int argc, char **argv)
{
	(void)sp;
	(void)argc;
	(void)argv;
	switch (spank_context()) {
	case S_CTX_ALLOCATOR:
		alloc_options_known();
		break;
	case S_CTX_LOCAL:
		srun_options_known();
		break;
	default:
		break;
	}

	return (0);
}

int slurm_spank_task_init_privileged(spank_t sp, int argc, char **argv)
{
	(void)argc;
	(void)argv;
	stepd_task_as_root(sp);

	return (0);
}

int slurm_spank_task_init(spank_t sp, int argc, char **argv)
{
	(void)argc;
	(void)argv;
	stepd_task_as_user(sp);

	return (0);
}

int slurm_spank_job_epilog(spank_t sp, int argc, char **argv)
{
	slurmd_job_over(sp, argc, argv);

	return (0);
}
