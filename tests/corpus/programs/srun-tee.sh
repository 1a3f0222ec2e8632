#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: srun in the middle of a pipeline: fed from a pipe, labelled output through tee and awk
# Needs: slurm-client gawk
#SBATCH --job-name=srun-tee --nodes=2 --ntasks-per-node=1 --output=log
set -eu
echo "piping"
for i in $(seq 70); do echo "line $i"; sleep 0.1; done |
	srun --input=0 --label bash -c '
		if [ "$SLURM_PROCID" = 0 ]; then
			n=0
			while read -r word number; do n=$((n + number)); echo "$word $number $n"; done
		else
			for i in $(seq 60); do echo "other $((i * i))"; sleep 0.11; done
		fi' | tee labelled.raw |
	awk '{ n[$1]++; sum[$1] += $NF } $NF % 1000 == 0 { print "passed", $0; fflush() } END { for (k in n) print k, n[k], sum[k] }' | sort >sums
# The two tasks' lines come interleaved as it happens; each task's own order is fixed.
sort -s -t: -k1,1n labelled.raw >labelled
rm labelled.raw
cat sums
sha256sum labelled
