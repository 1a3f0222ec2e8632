#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: stress-ng: 15 stressors one after another, each checks its own results, fixed number of operations
# Needs: stress-ng
#SBATCH --job-name=stress-ng --ntasks=1 --output=log
set -eu
echo "stressing"
run() {
	echo "$1 $2"
	# What it says has process numbers in it; its exit code is what counts.
	stress-ng --quiet --verify --no-rand-seed --timeout 120 "--$1" 2 "--$1-ops" "$2" "${@:3}" 2>/dev/null
}
run cpu 600 --cpu-method all
run matrix 500
run qsort 20 --qsort-size 65536
run pipe 60000
run vm 20000 --vm-bytes 16m --vm-method all
run fork 500
run futex 5000
run eventfd 20000
run timer 1000 --timer-freq 1000
run memcpy 40
run str 300 --str-method all
run shm 100
run tree 20 --tree-size 10000
run sockpair 5000
run hdd 500 --hdd-bytes 8m
echo "every check passed"
