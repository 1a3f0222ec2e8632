#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: a bash loop with 64-bit arithmetic, an array and two children a turn
# Needs: bash coreutils
#SBATCH --job-name=bash-arithmetic --ntasks=1 --output=log
set -eu
echo "counting"
n=1 seen=()
for i in $(seq 80); do
	n=$((n * 6364136223846793005 + 1442695040888963407))
	seen[n & 15]=$((${seen[n & 15]:-0} + i))
	hash=$(printf %s "$n" | sha256sum)
	echo "$i $n ${hash%% *}" >>steps
	if ((i % 8 == 0)); then echo "turn $i: $n"; fi
	sleep 0.1
done
echo "buckets ${seen[*]}"
sha256sum steps
