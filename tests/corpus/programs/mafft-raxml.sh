#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: MAFFT aligns sequences that have evolved along a tree, RAxML finds the tree again with bootstraps
# Needs: mafft raxml gawk
#SBATCH --job-name=mafft-raxml --ntasks=1 --output=log
set -eu
echo "evolving"
gawk 'function child(s, rate,   i, c, r) { for (i = 1; i <= length(s); i++) { c = substr(s, i, 1)
		if (rand() < rate) { c = b[1 + int(rand() * 4)]; if (rand() < .05) c = ""; if (rand() < .05) c = c b[1 + int(rand() * 4)] }; r = r c }; return r }
	function grow(s, depth, name) { if (!depth) { printf ">leaf%s\n%s\n", name, s; return }
		grow(child(s, .06), depth - 1, name "L"); grow(child(s, .06), depth - 1, name "R") }
	BEGIN { srand(17); split("A C G T", b); for (k = 0; k < 300; k++) s = s b[1 + int(rand() * 4)]; grow(s, 3, "") }' >leaves.fa
mafft --quiet --auto leaves.fa >aligned.fa
echo "aligned $(grep -c '>' aligned.fa) leaves: $(sha256sum <aligned.fa)"
mafft --quiet --localpair --maxiterate 10 leaves.fa | sha256sum
raxmlHPC -f a -m GTRGAMMA -p 11 -x 12 -N 6 -s aligned.fa -n tree >/dev/null
echo "best tree $(cat RAxML_bestTree.tree)"
rm RAxML_info.tree
sha256sum RAxML_*
