#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: gawk with big tables and getline from a coprocess, mawk reading what it says
# Needs: gawk mawk
#SBATCH --job-name=awk-tables --ntasks=1 --output=log
set -eu
echo "tabulating"
gawk 'BEGIN {
	srand(12345)
	sorter = "sort -n"
	for (turn = 1; turn <= 60; turn++) {
		for (i = 0; i < 2000; i++) {
			key = int(rand() * 5000)
			n[key]++
			last[key, turn % 7] = turn
			text[key] = substr(text[key] sprintf("%x", key * turn), 1, 40)
		}
		print length(n), turn |& sorter
		if (turn % 10 == 0) { print "turn", turn, length(n), length(last); fflush() }
		system("sleep 0.1")
	}
	close(sorter, "to")
	while ((sorter |& getline line) > 0) print line > "sizes"
	PROCINFO["sorted_in"] = "@ind_num_asc"
	for (k in n) print k, n[k], text[k] > "table"
}' | mawk -W interactive '{ print "heard:", $0; n++ } END { print n, "lines" }'
sha256sum table sizes
