#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: BLAST+: a database of made-up sequences, nucleotides and proteins searched with two threads
# Needs: ncbi-blast+ gawk
#SBATCH --job-name=ncbi-blast --ntasks=1 --output=log
set -eu
echo "making a database"
gawk 'BEGIN { srand(5); split("A C G T", b)
	for (n = 1; n <= 300; n++) { s = ""; for (k = 0; k < 900; k++) s = s b[1 + int(rand() * 4)]; printf ">seq%d\n%s\n", n, s } }' >genes.fa
makeblastdb -in genes.fa -dbtype nucl -out genes >/dev/null
for turn in $(seq 12); do
	gawk -v turn=$turn 'BEGIN { srand(turn); split("A C G T", b) }
		!/^>/ && rand() < .15 { s = substr($0, 1 + int(rand() * 300), 500)
			for (k = 0; k < 40; k++) { p = 1 + int(rand() * 500); s = substr(s, 1, p - 1) b[1 + int(rand() * 4)] substr(s, p + 1) }
			printf ">query%d\n%s\n", ++n, s }' genes.fa >queries.fa
	blastn -db genes -query queries.fa -num_threads 2 -outfmt 6 >hits.$turn
	tblastx -db genes -query <(head -n 8 queries.fa) -num_threads 2 -outfmt 6 -evalue 1e-20 >translated.$turn
	if ((turn % 3 == 0)); then echo "turn $turn: $(wc -l <hits.$turn) hits, $(wc -l <translated.$turn) translated"; fi
	sleep 0.1
done
rm genes.n*
cat hits.* | sha256sum
cat translated.* | sha256sum
