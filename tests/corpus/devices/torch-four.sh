#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: unmodified PyTorch: the same GPT trained by four ranks on two nodes with two GPUs each
# Needs: cuda-software
#SBATCH --job-name=torch-four --nodes=2 --ntasks-per-node=2 --gpus-per-node=2 --output=log
set -eu
export MASTER_ADDR=$(hostname) MASTER_PORT=29656
# The rank that is quicker than the first warns, with the time of day, that it has to wait.
srun /opt/cuda-software/python /shared/corpus/bin/gpt.py --steps 6 >losses 2> >(grep -v TCPStore.cpp >&2)
tail -n 1 losses
sha256sum losses
