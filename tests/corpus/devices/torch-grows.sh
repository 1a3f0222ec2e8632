#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: unmodified PyTorch: a GPT trained by two ranks on one GPU, which other jobs' leases make two
# Needs: cuda-software
#SBATCH --job-name=torch-grows --nodes=1 --gpus-per-node=1 --singularity-gpus=1-2 --output=log
set -eu
export MASTER_PORT=29657
# The rank that is quicker than the first warns, with the time of day, that it has to wait.
/opt/cuda-software/python /shared/corpus/bin/gpt.py --processes 2 --steps 8 >losses 2> >(grep -v TCPStore.cpp >&2)
tail -n 1 losses
sha256sum losses
