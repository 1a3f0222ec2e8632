#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: a transformer trained on two nodes with a GPU each, data-parallel
# Needs: slurm-client
#SBATCH --job-name=gpt-nodes --nodes=2 --ntasks-per-node=1 --gpus-per-node=1 --output=log
set -eu
bin=/shared/corpus/bin
srun "$bin/gpt" --id-file id --steps 240 >losses
tail -n 1 losses
sha256sum losses
