#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: four processes count one file up under flock, a fifth holds a lock all along
# Needs: bash util-linux
#SBATCH --job-name=flock --ntasks=1 --output=log
set -eu
echo 0 >counter
echo "counting with locks"
# Held by this shell for the whole run; nobody else may have it.
exec 9>held
flock -n 9
count() {
	local i n
	for i in $(seq 18); do
		(
			flock 8
			read -r n <counter
			sleep 0.08
			echo $((n + 1)) >counter
		) 8>lock
		if flock -n held true; then echo "the held lock was free"; fi
	done
}
for w in 1 2 3 4; do count & done
wait %1 %2 %3 %4
echo "counted to $(cat counter)"
flock -u 9
flock -n held echo "now it is free"
