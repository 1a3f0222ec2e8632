#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: bwa mem aligns pairs of reads with two threads, again and again, and samtools marks duplicates
# Needs: bwa samtools gawk
#SBATCH --job-name=bwa-pairs --ntasks=1 --output=log
set -eu
echo "indexing"
gawk 'BEGIN { srand(31); split("A C G T", b); print ">chrA"; for (i = 0; i < 2000; i++) { s = ""; for (k = 0; k < 60; k++) s = s b[1 + int(rand() * 4)]; print s } }' >genome.fa
bwa index genome.fa 2>/dev/null
for turn in $(seq 14); do
	gawk -v seed=$turn 'function reversed(s,   i, r) { for (i = length(s); i > 0; i--) r = r pair[substr(s, i, 1)]; return r }
		NR > 1 { g = g $0 } END { srand(seed); pair["A"] = "T"; pair["T"] = "A"; pair["C"] = "G"; pair["G"] = "C"
		for (r = 1; r <= 1500; r++) { at = 1 + int(rand() * (length(g) - 500)); q = sprintf("%100s", ""); gsub(/ /, "I", q)
			printf "@pair%d\n%s\n+\n%s\n", r, substr(g, at, 100), q >"one.fq"
			printf "@pair%d\n%s\n+\n%s\n", r, reversed(substr(g, at + 300, 100)), q >"two.fq" } }' genome.fa
	bwa mem -t 2 genome.fa one.fq two.fq 2>/dev/null | samtools fixmate -m - - | samtools sort -T sorting - | samtools markdup - marked.bam
	echo "$turn $(samtools view marked.bam | cut -f 1-11 | sha256sum) $(samtools view -c -f 1024 marked.bam)" >>runs
	if ((turn % 3 == 0)); then echo "run $turn: $(samtools view -c -f 2 marked.bam) in pairs"; fi
	sleep 0.1
done
rm marked.bam genome.fa.*
sha256sum runs
