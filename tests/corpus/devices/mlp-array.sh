#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: a job array: three perceptrons trained for different times, each on a GPU of its own
# Needs: slurm-client
#SBATCH --job-name=mlp-array --nodes=1 --gpus-per-node=1 --array=1-3 --output=log.%a
set -eu
bin=/shared/corpus/bin
"$bin/mlp" --steps $((800 + 400 * SLURM_ARRAY_TASK_ID)) >"losses.$SLURM_ARRAY_TASK_ID"
tail -n 1 "losses.$SLURM_ARRAY_TASK_ID"
sha256sum "losses.$SLURM_ARRAY_TASK_ID"
