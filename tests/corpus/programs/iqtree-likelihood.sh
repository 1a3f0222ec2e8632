#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: IQ-TREE: the most likely tree of made-up sequences, a choice of models, bootstraps
# Needs: iqtree gawk
#SBATCH --job-name=iqtree-likelihood --ntasks=1 --output=log
set -eu
gawk 'BEGIN {
	srand(5); split("A C G T", base, " ")
	for (i = 1; i <= 400; i++) s[1][i] = base[1 + int(4 * rand())]
	for (n = 2; n <= 14; n++) for (i = 1; i <= 400; i++)
		s[n][i] = rand() < 0.08 ? base[1 + int(4 * rand())] : s[int(n / 2)][i]
	print 14, 400
	for (n = 1; n <= 14; n++) { printf "species%d ", n; for (i = 1; i <= 400; i++) printf "%s", s[n][i]; print "" }
}' >alignment.phy
echo "starting"
iqtree=$(command -v iqtree3 || command -v iqtree2)
for turn in 1 2; do
	"$iqtree" -s alignment.phy -m MFP -B 1000 -T 1 --seed $turn --prefix "tree$turn" -quiet
	grep -E '^(Best-fit model|Log-likelihood of the tree)' "tree$turn.iqtree"
	cat "tree$turn.treefile"
done
# A compressed state of the program, and files with times.
rm -f tree?.ckp.gz tree?.log tree?.iqtree tree?.model.gz tree?.mldist tree?.bionj tree?.splits.nex
