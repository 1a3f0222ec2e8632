#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: HMMER: models of made-up protein families are built, and searched for in a growing set of sequences
# Needs: hmmer gawk
#SBATCH --job-name=hmmer --ntasks=1 --output=log
set -eu
echo "making families"
family() { # seed, number of sequences
	gawk -v seed=$1 -v count=$2 'BEGIN { srand(seed); split("A C D E F G H I K L M N P Q R S T V W Y", a)
		for (k = 1; k <= 120; k++) core[k] = a[1 + int(rand() * 20)]
		for (n = 1; n <= count; n++) { s = ""; for (k = 1; k <= 120; k++) s = s (rand() < .7 ? core[k] : a[1 + int(rand() * 20)])
			printf ">family%d_%d\n%s\n", seed, n, s } }'
}
for f in 1 2 3 4; do
	{ echo "# STOCKHOLM 1.0"; family $f 12 | gawk '/^>/ { name = substr($1, 2); next } { print name, $0 }'; echo "//"; } >family.$f
	hmmbuild -n family$f model.$f family.$f >/dev/null
done
cat model.? >models
hmmpress models >/dev/null
for turn in $(seq 12); do
	for f in 1 2 3 4; do family $f $((turn * 12)); done >sequences
	hmmsearch --tblout found -o /dev/null models sequences
	hmmscan --domtblout domains -o /dev/null models sequences
	jackhmmer -N 2 --tblout again -o /dev/null <(head -n 2 sequences) sequences
	echo "$turn $(grep -v '^#' found | sha256sum) $(grep -v '^#' domains | sha256sum) $(grep -vc '^#' again)" >>hits
	if ((turn % 3 == 0)); then echo "turn $turn: $(grep -vc '^#' found) found"; fi
	sleep 0.2
done
rm models* model.? found domains again
sha256sum hits sequences
