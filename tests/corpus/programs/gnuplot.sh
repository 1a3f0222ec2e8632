#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: gnuplot reads commands from a pipe and draws a growing data file as text and SVG
# Needs: gnuplot-nox gawk
#SBATCH --job-name=gnuplot --ntasks=1 --output=log
set -eu
echo "drawing"
{
	echo 'set terminal dumb 72 18 noenhanced; set key off; set xrange [0:60]; set output "plots.txt"'
	for i in $(seq 60); do
		gawk -v i=$i 'BEGIN { print i, sin(i / 5) * exp(-i / 40), cos(i / 7) }' >>data
		if ((i % 10 == 0)); then
			echo "plot 'data' using 1:2 with lines, '' using 1:3 with points"
			echo "f(x) = a + b * cos(x / c); a = 0.1; b = 1.1; c = 7.4"
			echo "fit [*:*] f(x) 'data' using 1:3 via a, b, c; print sprintf('$i: %.6f %.6f %.6f', a, b, c)"
		fi
		sleep 0.12
	done
	echo 'set output; set terminal svg size 300,200 name "plot"; set output "plot.svg"; plot "data" using 1:2 smooth csplines'
} | sed -u 's/^fit /set fit quiet nolog; fit /' | gnuplot 2>&1 | tee fits
rm -f fit.log
sha256sum plots.txt data
