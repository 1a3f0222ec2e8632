#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: rsync copies a changing tree through its pair of processes, socat relays a stream
# Needs: rsync socat
#SBATCH --job-name=rsync-socat --ntasks=1 --output=log
set -eu
dir=$(mktemp -d)
mkdir "$dir/src" "$dir/dst"
echo "relaying"
socat "UNIX-LISTEN:$dir/relay" "EXEC:tr a-z A-Z" &
until [ -S "$dir/relay" ]; do sleep 0.02; done
{
	for i in $(seq 45); do
		seq $i $((i * 700)) >"$dir/src/$((i % 9))"
		mkdir -p "$dir/src/d$((i % 4))" && echo "turn $i" >>"$dir/src/d$((i % 4))/log"
		if ((i % 7 == 0)); then rm "$dir/src/$((i % 9))"; fi
		rsync -a --delete --checksum --bwlimit=2M "$dir/src/" "$dir/dst/"
		diff -r "$dir/src" "$dir/dst"
		echo "turn $i $(cd "$dir/dst" && find . -type f | sort | xargs sha256sum | sha256sum | cut -c1-24)"
		sleep 0.05
	done
} | socat - "UNIX-CONNECT:$dir/relay" | tee relayed | grep '[05] '
wait
rm -r "$dir"
sha256sum relayed
