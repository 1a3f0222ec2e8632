#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: a solver that queues thousands of kernels and looks at the result once a step
# Needs: slurm-client
#SBATCH --job-name=solver-queued --nodes=1 --gpus-per-node=1 --output=log
set -eu
bin=/shared/corpus/bin
srun "$bin/solver" --steps 2 >steps
tail -n 1 steps
sha256sum steps
