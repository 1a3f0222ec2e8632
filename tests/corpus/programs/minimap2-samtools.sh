#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: a made-up genome is cut in reads, aligned with minimap2 threads, sorted and piled up
# Needs: minimap2 samtools gawk
#SBATCH --job-name=minimap2-samtools --ntasks=1 --output=log
set -eu
echo "sequencing"
gawk 'BEGIN { srand(11); split("A C G T", b); print ">genome"; for (i = 0; i < 4000; i++) { s = ""; for (k = 0; k < 60; k++) s = s b[1 + int(rand() * 4)]; print s } }' >genome.fa
gawk 'NR > 1 { g = g $0 } END { srand(23); split("A C G T", b)
	for (r = 1; r <= 2400; r++) { at = 1 + int(rand() * (length(g) - 400)); s = substr(g, at, 400)
		for (k = 0; k < 8; k++) { p = 1 + int(rand() * 400); s = substr(s, 1, p - 1) b[1 + int(rand() * 4)] substr(s, p + 1) }
		printf "@read%d\n%s\n+\n%s\n", r, s, gensub(/./, "I", "g", s)
		if (r % 40 == 0) { fflush(); system("sleep 0.1") } } }' genome.fa | tee reads.fq |
	minimap2 -a -x sr -t 2 -K 50k genome.fa - 2>/dev/null |
	samtools sort --no-PG -@ 1 -m 1M -T "${TMPDIR:-/tmp}/sort" -O sam - | grep -v '^@' >aligned
echo "aligned $(wc -l <aligned)"
{ printf '@SQ\tSN:genome\tLN:240000\n'; cat aligned; } | samtools view --no-PG -b - >aligned.bam
samtools index aligned.bam
samtools mpileup -f genome.fa aligned.bam 2>/dev/null | cut -f 2-5 | sha256sum
samtools depth aligned.bam | gawk '{ n[int($3 / 5)]++ } END { for (d in n) print "depth", d * 5, n[d] }' | sort
rm aligned.bam aligned.bam.bai
sha256sum reads.fq aligned
