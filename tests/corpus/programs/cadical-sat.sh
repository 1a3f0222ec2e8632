#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: a SAT solver: pigeon holes that do not fit and random formulas, answers and proofs
# Needs: cadical gawk
#SBATCH --job-name=cadical-sat --ntasks=1 --output=log
set -eu
echo "solving"
for seed in $(seq 12); do
	gawk -v seed=$seed -v n=170 -v m=720 'BEGIN {
		srand(seed); print "p cnf", n, m
		for (i = 0; i < m; i++) { for (k = 0; k < 3; k++) printf "%d ", (1 + int(rand() * n)) * (rand() < .5 ? -1 : 1); print 0 } }' >formula
	code=0
	cadical -q formula >answer || code=$?
	echo "formula $seed: $code $(sha256sum <answer)" | tee -a answers
	sleep 0.1
done
for holes in 6 7 8; do
	gawk -v h=$holes 'BEGIN {
		print "p cnf", (h + 1) * h, (h + 1) + h * (h + 1) * h / 2
		for (p = 0; p <= h; p++) { for (k = 1; k <= h; k++) printf "%d ", p * h + k; print 0 }
		for (k = 1; k <= h; k++) for (p = 0; p <= h; p++) for (q = 0; q < p; q++) print -(p * h + k), -(q * h + k), 0 }' >formula
	code=0
	cadical -q --binary=0 formula proof >answer || code=$?
	echo "$((holes + 1)) pigeons in $holes holes: $(head -n 1 answer), proof $(sha256sum <proof)"
done
rm formula answer proof
