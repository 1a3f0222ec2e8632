#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: named pipes: a shell and its child talk through two FIFOs in the working folder
# Needs: bash coreutils
#SBATCH --job-name=fifo --ntasks=1 --output=log
set -eu
mkfifo there back
echo "playing"
square() {
	while read -r n; do
		[ "$n" = end ] && break
		echo "$((n * n))" >&4
	done <&3
}
exec 3<>there 4<>back
square &
sum=0
for i in $(seq 75); do
	echo "$i" >&3
	read -r s <&4
	sum=$((sum + s))
	echo "$i $s $sum" >>sums
	if ((i % 15 == 0)); then echo "after $i: $sum"; fi
	sleep 0.1
done
echo end >&3
wait
rm there back
sha256sum sums
