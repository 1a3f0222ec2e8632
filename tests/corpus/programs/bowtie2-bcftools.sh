#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: reads of a made-up genome go through bowtie2, samtools and bcftools in a pipeline, which finds its variants
# Needs: bowtie2 samtools bcftools gawk
#SBATCH --job-name=bowtie2-bcftools --ntasks=1 --output=log
set -eu
echo "indexing"
gawk 'BEGIN { srand(3); split("A C G T", b); print ">chr1"; for (i = 0; i < 1000; i++) { s = ""; for (k = 0; k < 60; k++) s = s b[1 + int(rand() * 4)]; print s } }' >genome.fa
bowtie2-build -q genome.fa genome
samtools faidx genome.fa
gawk 'NR > 1 { g = g $0 } END { srand(8); split("A C G T", b); split("C G T A", other); for (k in b) to[b[k]] = other[k]
	for (p = 500; p < length(g) - 500; p += 997) g = substr(g, 1, p - 1) to[substr(g, p, 1)] substr(g, p + 1)
	for (r = 1; r <= 12000; r++) { at = 1 + int(rand() * (length(g) - 120)); s = substr(g, at, 120)
		printf "@read%d\n%s\n+\n%s\n", r, s, gensub(/./, "I", "g", s)
		if (r % 150 == 0) { fflush(); system("sleep 0.1") } } }' genome.fa |
	bowtie2 -p 2 --reorder --no-unal -x genome -U - 2>summary |
	samtools sort -@ 1 -m 2M -o sorted.bam - 2>/dev/null
cat summary
samtools index sorted.bam
samtools flagstat sorted.bam | head -n 1
bcftools mpileup -f genome.fa sorted.bam 2>/dev/null | bcftools call -mv --ploidy 1 -Ov | grep -v '^##' >variants
echo "variants $(grep -vc '^#' variants)"
samtools view sorted.bam | sha256sum
rm sorted.bam* genome.*bt2
sha256sum variants
