#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: unmodified PyTorch: a GPT of three million parameters, sharded by FSDP over two nodes, with worker processes of a DataLoader
# Needs: cuda-software
#SBATCH --job-name=torch-sharded --nodes=2 --ntasks-per-node=1 --gpus-per-node=1 --output=log
set -eu
export MASTER_ADDR=$(hostname) MASTER_PORT=29657
# The rank that is quicker than the first warns, with the time of day, that it has to wait.
srun /opt/cuda-software/python /shared/corpus/bin/sharded_gpt.py --steps 4 >losses 2> >(grep -v TCPStore.cpp >&2)
tail -n 1 losses
sha256sum losses
