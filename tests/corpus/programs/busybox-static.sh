#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: a statically linked program: busybox's own shell and tools, no libc.so to preload into
# Needs: busybox-static
#SBATCH --job-name=busybox-static --ntasks=1 --output=log
exec busybox env -i PATH=/nowhere busybox sh -s <<'SH'
set -eu
echo "static"
i=0
while [ $i -lt 75 ]; do
	i=$((i + 1))
	busybox seq $i | busybox sha256sum >>sums
	busybox seq 1 $((i * 50)) | busybox gzip -c | busybox zcat | busybox wc -c >>sizes
	[ $((i % 15)) -ne 0 ] || echo "turn $i"
	busybox sleep 0.1
done
busybox awk '{ s += $1 } END { print "sizes", s }' sizes
busybox sha256sum sums sizes
SH
