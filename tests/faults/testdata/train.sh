#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# One rank of a training on software GPUs, until the file "stop" is in the folder. Rank 0 prints for all.
set -eu -o pipefail
cd "$1"
/shared/faults/bin/mlp --id-file "id.$SLURM_JOB_ID" --statistics --steps 0 --until stop | python3 /shared/faults/pace.py
