#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: LaTeX: a long paper with contents, references and pictures of its own, typeset again and again until its references settle
# Needs: texlive-latex-base
#SBATCH --job-name=latex --ntasks=1 --output=log
set -eu
export HOME=$(mktemp -d) SOURCE_DATE_EPOCH=1700000000 FORCE_SOURCE_DATE=1
export TEXMFVAR=$HOME/texmf
echo "typesetting"
write() { # a paper of so many sections
	printf '\\documentclass{article}\n\\usepackage{amsmath,makeidx}\n\\makeindex\n\\begin{document}\n\\title{Sums}\\author{nobody}\\date{}\\maketitle\\tableofcontents\\listoftables\n'
	for s in $(seq $1); do
		printf '\\section{Sum %d}\\label{s%d}\n' $s $s
		for p in $(seq 12); do
			printf 'As section~\\ref{s%d} on page~\\pageref{s%d} shows, $\\sum_{k=1}^{%d} k^{%d} = %d$, which is not $\\int_0^1 x^{%d}\\,dx$\\index{sum!%d}. ' $(((s * 7 + p) % $1 + 1)) $(((s * 5 + p) % $1 + 1)) $s $p $((s * p * 7919 % 9973)) $p $p
			printf '\\begin{equation}\\begin{pmatrix} %d & \\frac{%d}{\\sqrt{%d}} \\\\ \\binom{%d}{%d} & \\prod_{j} x_j \\end{pmatrix}\\end{equation}\n' $s $p $((s + p)) $((s + p)) $p
		done
		printf '\\begin{table}\\caption{Of %d}\\begin{tabular}{|c|r|}\\hline a & %d\\\\ b & %d\\\\\\hline\\end{tabular}\\end{table}\n' $s $((s * s)) $((s * s * s))
	done
	printf '\\printindex\\end{document}\n'
}
for turn in 1 2 3 4 5 6; do
	write $((turn * 4)) >paper.tex
	for pass in 1 2 3; do
		pdflatex -interaction=batchmode paper.tex >/dev/null
		makeindex -q paper.idx
	done
	echo "turn $turn: $(grep -o 'Output written on paper.pdf ([0-9]* pages' paper.log)"
	sed -n 's/^\\newlabel//p' paper.aux >>labels
	sed '/^\/ID/d; /^\/\(CreationDate\|ModDate\)/d' paper.pdf | sha256sum >>papers
done
grep -c undefined paper.log || true
rm -rf paper.* "$HOME"
sha256sum labels papers
