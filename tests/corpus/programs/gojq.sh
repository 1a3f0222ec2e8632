#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: gojq, a Go program, as one long-lived filter over a stream of JSON documents
# Needs: gojq gawk
#SBATCH --job-name=gojq --ntasks=1 --output=log
set -eu
echo "filtering"
for i in $(seq 80); do
	gawk -v i=$i 'BEGIN { for (k = 0; k < 40; k++) printf "{\"turn\":%d,\"k\":%d,\"tags\":[\"a%d\",\"b%d\"],\"n\":{\"v\":%.6f}}\n", i, k, k % 7, i % 5, sin(i * k) }'
	sleep 0.1
done | gojq -nc '
	foreach inputs as $d ({n: 0, sums: {}};
		.n += 1 | .sums[$d.tags[]] += ($d.n.v * 1000 | floor);
		if .n % 400 == 0 then {n, tags: (.sums | length), sums} else empty end)' |
	tee sums | gojq -c '[.n, .tags, .sums.a0, .sums.b0]'
sha256sum sums
