// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* The job to which --singularity-lease lends GPUs, as the user that submits the lease sees it. */
#ifndef SING_BORROWER_H
#define SING_BORROWER_H

/*
 * Why no GPUs can be lent to a job, or NULL: Slurm knows no job of that number. The start of the lease
 * checks whether the job is the user's, and runs on the lease's node. Called only in sbatch.
 */
const char *borrower_refusal(const char *job);

#endif
