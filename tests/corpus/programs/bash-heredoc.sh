#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: here-documents, here-strings, process substitution, nested subshells, a coprocess
# Needs: bash coreutils bc
#SBATCH --job-name=bash-heredoc --ntasks=1 --output=log
set -eu
echo "reading"
coproc CALC { bc -lq; }
calc=$CALC_PID # bash forgets it when bc has ended
total=0
while read -r a b; do
	echo "$a^2 + $b" >&"${CALC[1]}"
	read -r answer <&"${CALC[0]}"
	total=$((total + answer))
	(
		inside=$total
		(
			inside=$((inside * 2))
			cat <<-TEXT >>notes
				a is $a, b is $b
				doubled it is $inside, undoubled $total
			TEXT
		)
		echo "outer level keeps $inside" >>notes
	)
	sleep 0.1
	if ((a % 10 == 0)); then
		tr 'a-z' 'A-Z' <<<"turn $a makes $total"
	fi
done < <(for i in $(seq 70); do echo "$i $((i * 3))"; done)
eval "exec ${CALC[1]}>&-"
wait "$calc" || true
paste <(head -n 4 notes) <(tail -n 4 notes)
sha256sum notes
