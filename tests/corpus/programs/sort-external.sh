#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: sort and join work on files larger than the memory they are allowed, through /tmp
# Needs: coreutils gawk
#SBATCH --job-name=sort-external --ntasks=1 --output=log
set -eu
export LC_ALL=C
generate() { # seed
	gawk -v seed="$1" 'BEGIN { srand(seed); for (i = 0; i < 120000; i++) printf "%08x %d\n", rand() * 2^32, i }'
}
for seed in 1 2 3; do
	echo "round $seed"
	generate $seed >left
	generate $((seed + 10)) >right
	for f in left right; do
		while read -r -N 200000 part || [ -n "$part" ]; do printf %s "$part"; sleep 0.02; done <$f |
			sort -S 1M --parallel=2 -T "${TMPDIR:-/tmp}" -k1,1 -o $f.sorted
	done
	join left.sorted right.sorted | sha256sum
	sort -m left.sorted right.sorted | uniq -w 8 -c | sort -S 512K -rn -k1,1 -k2,2 | head -n 3
	comm -12 <(cut -d' ' -f1 left.sorted) <(cut -d' ' -f1 right.sorted) | wc -l
	sha256sum left.sorted right.sorted >>sums
done
rm left right ./*.sorted
sha256sum sums
