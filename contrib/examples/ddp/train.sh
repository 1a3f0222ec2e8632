#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
#SBATCH --nodes=2 --ntasks-per-node=1 --output=%x.log
#
# A training on two nodes, started as on any cluster. Its losses go to NAME.losses.
export MASTER_ADDR=$(scontrol show hostnames | head -n 1) MASTER_PORT=29500
export USE_LIBUV=0 # Debian's PyTorch is built without
srun python3 train.py "${STEPS:-200}" >"$SLURM_JOB_NAME.losses"
echo "srun ended with $?"
