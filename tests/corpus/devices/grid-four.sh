#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: tensor- and pipeline-parallel, 2x2 ranks on two nodes with two GPUs each, with send and receive
# Needs: slurm-client
#SBATCH --job-name=grid-four --nodes=2 --ntasks-per-node=2 --gpus-per-node=2 --output=log
set -eu
bin=/shared/corpus/bin
srun "$bin/grid" --id-file id --steps 600 >losses
tail -n 1 losses
sha256sum losses
