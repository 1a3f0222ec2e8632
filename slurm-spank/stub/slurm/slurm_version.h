// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* Which Slurm the stub is: the tests are built once for each of two. */
#ifndef STUB_SLURM_VERSION_H
#define STUB_SLURM_VERSION_H

#define SLURM_VERSION_NUM(major, minor, micro) (((major) << 16) + ((minor) << 8) + (micro))
#ifndef SLURM_VERSION_NUMBER
#define SLURM_VERSION_NUMBER SLURM_VERSION_NUM(26, 5, 5)
#endif

#endif
