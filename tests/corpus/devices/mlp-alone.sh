#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: a perceptron trained on one GPU, by the batch script itself
# Needs: slurm-client
#SBATCH --job-name=mlp-alone --nodes=1 --gpus-per-node=1 --output=log
set -eu
bin=/shared/corpus/bin
"$bin/mlp" --steps 4500 >losses
tail -n 1 losses
sha256sum losses
