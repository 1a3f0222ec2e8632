#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: ripgrep, a Rust program with threads, searches a growing tree; one copy reads a slow pipe
# Needs: ripgrep gawk
#SBATCH --job-name=ripgrep --ntasks=1 --output=log
set -eu
dir=$(mktemp -d)
echo "searching"
for i in $(seq 60); do
	gawk -v i=$i 'BEGIN { srand(i); for (k = 0; k < 3000; k++) printf "%d %x %s\n", k, rand() * 2^40, k % 91 ? "hay" : "needle" i }' >"$dir/$i"
	{
		rg -c --sort path 'needle\d*5' "$dir" | sed 's|.*/||'
		rg -j2 -o --no-filename '[0-9a-f]{3}beef' "$dir" | sort | uniq -c
	} >>found || true
	cat "$dir/$i"
	if ((i % 10 == 0)); then echo "turn $i: $(wc -l <found)" >&2; fi
	sleep 0.08
done | rg --line-buffered -r '<$1>' '(ca[0-9]fe|needle)' | sha256sum
rm -r "$dir"
sha256sum found
