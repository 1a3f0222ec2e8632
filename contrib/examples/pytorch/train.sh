#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
#SBATCH --nodes=2 --ntasks-per-node=2 --gpus-per-node=2 --output=%x.log
#
# A transformer trained with PyTorch by four ranks with a GPU each, on two nodes. After each step a line goes to
# NAME.losses: the step, its loss, the time, and a hash of all parameters. It ends after STEPS steps (0: never), or when
# there is a file NAME.stop.
export MASTER_ADDR=$(hostname) MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000)) OMP_NUM_THREADS=1
srun /opt/cuda-software/python train.py --steps "${STEPS:-150}" --until "$SLURM_JOB_NAME.stop" |
	while read -r _ step _ loss _ hash; do
		echo "$step $loss $EPOCHREALTIME $hash"
	done >"$SLURM_JOB_NAME.losses"
echo "srun ended with ${PIPESTATUS[0]}"
