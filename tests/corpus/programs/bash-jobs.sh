#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: background jobs of different length, wait -n, wait for one, exit codes, kill %1
# Needs: bash coreutils
#SBATCH --job-name=bash-jobs --ntasks=1 --output=log
set -eu
worker() { # number, tenths of a second
	local i
	for i in $(seq "$2"); do
		sleep 0.1
		echo "$1 $i" >>"worker.$1"
	done
	return "$1"
}
for round in 1 2 3; do
	echo "round $round"
	pids=()
	for w in 1 2 3 4; do
		worker $w $((w * 6)) &
		pids[w]=$!
	done
	sleep 1000 &
	idle=$!
	for w in 1 2 3 4; do
		code=0
		wait "${pids[w]}" || code=$?
		echo "worker $w ended with $code"
	done
	kill $idle
	code=0
	wait $idle || code=$?
	echo "the idle one ended with $code"
done
cat worker.* | sort | sha256sum
