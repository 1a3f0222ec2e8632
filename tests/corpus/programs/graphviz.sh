#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: Graphviz lays layered graphs out that grow, with straight, round and square edges, as SVG and as plain text, counted by gvpr
# Needs: graphviz
#SBATCH --job-name=graphviz --ntasks=1 --output=log
set -eu
export HOME=$(mktemp -d)
graph() { # n nodes
	echo "digraph g { node [shape=box];"
	for i in $(seq $1); do
		echo "n$i -> n$(((i * i + 7) % $1 + 1)); n$i -> n$(((i * 7919) % $1 + 1)); n$i [label=\"node $i\"];"
		if ((i % 9 == 0)); then echo "subgraph cluster_$i { n$i; n$((i - 1)); }"; fi
	done
	echo "}"
}
echo "laying out"
for turn in $(seq 16); do
	graph $((turn * 5 + 10)) >graph.dot
	for layout in spline polyline line ortho; do
		dot -Gsplines=$layout -Tplain graph.dot >plain 2>/dev/null
		dot -Gsplines=$layout -Grankdir=LR -Tsvg graph.dot >svg 2>/dev/null
		echo "$turn $layout $(cat plain svg | sha256sum)" >>layouts
	done
	gvpr 'BEG_G { int n = 0 } E { n++ } END_G { print(n) }' graph.dot >>layouts
	if ((turn % 4 == 0)); then echo "turn $turn: $(wc -l <plain) lines"; fi
done
rm -r graph.dot plain svg "$HOME"
sha256sum layouts
