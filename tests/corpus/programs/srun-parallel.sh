#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: four steps at once on two nodes with & and wait, one of them fails
# Needs: slurm-client coreutils
#SBATCH --job-name=srun-parallel --nodes=2 --ntasks-per-node=2 --output=log
set -eu
cat >work.sh <<'SH'
n=$1
for i in $(seq $((40 + n * 10))); do
	n=$(((n * 1103515245 + 12345) % 2147483648))
	echo "$i $n"
	sleep 0.1
done
exit $(($1 == 3 ? 9 : 0))
SH
echo "two rounds"
for round in 1 2; do
	pids=()
	for w in 0 1 2 3; do
		srun --exact --ntasks=1 --nodes=1 --cpus-per-task=1 --output="log.$round.$w" bash work.sh $((w * (3 - round) % 4)) 2>/dev/null &
		pids[w]=$!
	done
	for w in 0 1 2 3; do
		code=0
		wait "${pids[w]}" || code=$?
		echo "round $round step $w: $code"
	done
done
