#!/bin/sh
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: one long pipeline of a plain POSIX shell, every stage alive for the whole run
# Needs: dash coreutils mawk sed
#SBATCH --job-name=sh-pipelines --ntasks=1 --output=log
set -eu
echo "pumping"
produce() {
	i=0
	while [ $i -lt 80 ]; do
		seq $((i * 100)) $((i * 100 + 99))
		i=$((i + 1))
		sleep 0.1
	done
}
produce | sed -u 's/7/seven/g' | tr 'a-z' 'A-Z' | tee everything |
	awk '{ n[length($0)]++; print NR, $0 } END { for (l in n) print "length", l, n[l] }' |
	sort -k2 | tee sorted | sha256sum
wc -l everything sorted
