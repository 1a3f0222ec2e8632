#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: bc computes pi and e to hundreds of digits, longer and longer
# Needs: bc
#SBATCH --job-name=bc-pi --ntasks=1 --output=log
set -eu
export BC_LINE_LENGTH=0
echo "computing"
for digits in $(seq 8 8 400); do
	echo "scale=$digits; 4*a(1); e(1)" | bc -l >now
	echo "$digits $(sha256sum <now)" >>digits
	if ((digits % 80 == 0)); then echo "$digits: $(head -n 1 now | tail -c 21)"; fi
	sleep 0.05
done
rm now
sha256sum digits
