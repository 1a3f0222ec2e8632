#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: groff: a manual through eqn, tbl, pic and refer, formatted as PostScript and text in pipelines, made PDF by Ghostscript
# Needs: groff ghostscript
#SBATCH --job-name=groff --ntasks=1 --output=log
set -eu
export HOME=$(mktemp -d) SOURCE_DATE_EPOCH=1700000000 TZ=UTC
chapter() {
	printf '.NH\nChapter %d\n.PP\nThe sum is\n.EQ\nsum from {k=1} to %d k sup %d over sqrt {x sub %d} = %d\n.EN\n' $1 $1 $1 $1 $(($1 * 7919 % 997))
	printf '.TS\nbox center tab(:);\nc|c\nn|n.\nn:square\n'
	for i in $(seq 9); do printf '%d:%d\n' $i $((i * i * $1)); done
	printf '.TE\n.PS\nbox "%d"; arrow; circle rad 0.%d "c"; line dashed; ellipse "e%d"\n.PE\n' $1 $(($1 % 5 + 2)) $1
	for i in $(seq 40); do printf '.LP\nParagraph %d of %d: %s\n' $i $1 "$(seq -s ' ' $i $((i + 30)))"; done
}
echo "formatting"
for turn in $(seq 14); do
	{ printf '.TL\nSums\n.AU\nnobody\n'; for c in $(seq $turn); do chapter $c; done; } >text.ms
	groff -e -t -p -ms -Tps text.ms >text.ps
	groff -e -t -p -ms -Tutf8 -P-c text.ms >text.txt 2>/dev/null
	gs -q -dBATCH -dNOPAUSE -dSAFER -sDEVICE=pgmraw -r20 -sOutputFile=page%d.pgm text.ps
	sed '/^%%CreationDate/d; /^%%Creator/d' text.ps | cat - text.txt page*.pgm | sha256sum >>sums
	if ((turn % 4 == 0)); then echo "turn $turn: $(grep -c '^%%Page:' text.ps) pages"; fi
	rm page*.pgm
done
rm -r text.* "$HOME"
sha256sum sums
