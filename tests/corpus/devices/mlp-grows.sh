#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: a perceptron trained by two ranks on one GPU, which other jobs' leases make two
# Needs: slurm-client
#SBATCH --job-name=mlp-grows --nodes=1 --gpus-per-node=1 --singularity-gpus=1-2 --output=log
set -eu
bin=/shared/corpus/bin
"$bin/mlp" --ranks 2 --processes --steps 1600 >losses
tail -n 1 losses
sha256sum losses
