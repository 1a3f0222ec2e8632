#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: steps one after another in a loop on two nodes; their exit codes steer the script
# Needs: slurm-client coreutils
#SBATCH --job-name=srun-sequence --nodes=2 --ntasks-per-node=1 --output=log
set -eu
echo "stepping"
value=1
for i in $(seq 7); do
	value=$(srun --ntasks=1 --nodes=1 bash -c 'n=$1; for k in 1 2 3 4 5; do n=$((n * 31 % 1000003 + k)); sleep 0.1; done; echo $n' step "$value")
	code=0
	srun --kill-on-bad-exit=0 bash -c 'sleep 0.3; echo "$2 from task $SLURM_PROCID" >>step$1.$SLURM_PROCID; exit $(($1 % 3 * SLURM_PROCID))' step "$i" "$value" 2>/dev/null || code=$?
	echo "step $i: value $value, exit code $code"
done
cat step?.0 step?.1 | sha256sum
