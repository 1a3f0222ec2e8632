#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: tail -f and tail --pid follow a log that a program writes, into a filter
# Needs: coreutils
#SBATCH --job-name=tail-follow --ntasks=1 --output=log
set -eu
echo "begins"
touch growing
(for i in $(seq 80); do echo "step $i loss $((100000 / (i + 3)))"; sleep 0.1; done >>growing) &
writer=$!
tail -n +1 -f --pid=$writer growing | grep --line-buffered '[05] loss' >seen
wait $writer
wc -l <seen
tail -n 2 seen
