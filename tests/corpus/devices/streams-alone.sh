#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: graphs, events, many streams and threads on one GPU
# Needs: slurm-client
#SBATCH --job-name=streams-alone --nodes=1 --gpus-per-node=1 --output=log
set -eu
bin=/shared/corpus/bin
srun "$bin/streams" --steps 2000 >steps
tail -n 1 steps
sha256sum steps
