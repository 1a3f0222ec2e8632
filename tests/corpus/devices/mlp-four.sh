#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: a perceptron trained by four ranks on two nodes with two GPUs each
# Needs: slurm-client
#SBATCH --job-name=mlp-four --nodes=2 --ntasks-per-node=2 --gpus-per-node=2 --output=log
set -eu
bin=/shared/corpus/bin
srun "$bin/mlp" --id-file id --steps 1200 >losses
tail -n 1 losses
sha256sum losses
