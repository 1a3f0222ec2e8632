#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: GLPK: integer programs (knapsacks, assignments, cutting stock) of growing size, in its own language
# Needs: glpk-utils
#SBATCH --job-name=glpk-optimise --ntasks=1 --output=log
set -eu
echo "optimising"
cat >sack.mod <<'M'
param n; param seed;
set I := 1..n;
param w{i in I} := 10 + (i * i * seed * 7919) mod 97;
param v{i in I} := 10 + (i * i * i * seed * 104729) mod 89;
param room{k in 1..3} := n * 12 + k * 5;
var x{I, 1..3} binary;
maximize value: sum{i in I, k in 1..3} v[i] * x[i, k];
s.t. once{i in I}: sum{k in 1..3} x[i, k] <= 1;
s.t. fits{k in 1..3}: sum{i in I} w[i] * x[i, k] <= room[k];
solve;
printf "%d items, seed %d: %d\n", n, seed, value;
end;
M
for turn in $(seq 30); do
	printf 'data;\nparam n := %d;\nparam seed := %d;\nend;\n' $((8 + turn / 4)) $turn >data
	glpsol --math sack.mod --data data --mipgap 0.01 -o solution >output
	echo "$turn $(grep items output) $(sed -n '/Column name/,$p' solution | sha256sum)" >>solutions
	if ((turn % 6 == 0)); then grep items output; fi
	sleep 0.15
done
rm data output solution
sha256sum solutions
