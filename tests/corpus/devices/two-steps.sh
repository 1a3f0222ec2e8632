#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: one training after the other, each with processes of its own
# Needs: slurm-client
#SBATCH --job-name=two-steps --nodes=1 --gpus-per-node=2 --output=log
set -eu
bin=/shared/corpus/bin
for seed in 1 2 3; do
	srun --ntasks=1 "$bin/mlp" --ranks 2 --seed "$seed" --steps 480 >losses.$seed
	tail -n 1 "losses.$seed"
done
sha256sum losses.*
