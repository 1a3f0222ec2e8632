#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: a transformer trained on two GPUs by two threads of a process, in a pipeline
# Needs: slurm-client
#SBATCH --job-name=gpt-threads --nodes=1 --gpus-per-node=2 --output=log
set -eu
bin=/shared/corpus/bin
srun "$bin/gpt" --ranks 2 --steps 160 | tee losses | awk 'NR % 10 == 0 { print $1, $2; fflush() }'
sha256sum losses
