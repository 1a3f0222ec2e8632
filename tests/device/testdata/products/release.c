// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// A library with a call of cuBLAS that tells which of several libraries it is.
int cublasSgemm_v2(void)
{
	return (RELEASE);
}
