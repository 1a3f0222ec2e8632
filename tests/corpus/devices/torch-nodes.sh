#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: unmodified PyTorch: a GPT in bf16 trained by DistributedDataParallel over nccl on two nodes with a GPU each
# Needs: cuda-software
#SBATCH --job-name=torch-nodes --nodes=2 --ntasks-per-node=1 --gpus-per-node=1 --output=log
set -eu
export MASTER_ADDR=$(hostname) MASTER_PORT=29655
# The rank that is quicker than the first warns, with the time of day, that it has to wait.
srun /opt/cuda-software/python /shared/corpus/bin/gpt.py --steps 8 >losses 2> >(grep -v TCPStore.cpp >&2)
tail -n 1 losses
sha256sum losses
