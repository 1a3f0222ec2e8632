#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: unmodified llama.cpp by node-llama-cpp answers four prompts at once
# Needs: cuda-llama
#SBATCH --job-name=llama-answers --nodes=1 --gpus-per-node=1 --output=log
set -eu
cp /shared/corpus/bin/model.mjs /shared/corpus/bin/answer.mjs .
ln -s /opt/cuda-llama/node_modules node_modules
/opt/cuda-llama/node model.mjs tiny.gguf
srun /opt/cuda-llama/node answer.mjs tiny.gguf 3 >answers
tail -n 1 answers
sha256sum answers
