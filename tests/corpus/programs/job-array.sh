#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: a job array of three, all on one node at a time: several jobs per node, each its own log
# Needs: coreutils
#SBATCH --job-name=job-array --ntasks=1 --array=1-3 --output=log.%a
set -eu
echo "element $SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT"
n=$SLURM_ARRAY_TASK_ID
for i in $(seq 70); do
	n=$(((n * 1664525 + 1013904223) % 4294967296))
	echo "$i $n" >>"out.$SLURM_ARRAY_TASK_ID"
	if ((i % 14 == 0)); then echo "turn $i: $n"; fi
	sleep 0.1
done
sha256sum "out.$SLURM_ARRAY_TASK_ID"
exit $((SLURM_ARRAY_TASK_ID == 2 ? 6 : 0))
