#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: KornShell 93: a coprocess, floating point, compound variables, discipline functions, traps, background jobs, its own builtins
# Needs: ksh93u+m
#SBATCH --job-name=ksh93 --ntasks=1 --output=log
set -eu
cat >swarm.ksh <<'K'
typeset -F10 value=0
integer turn reads=0
function counted.get { ((reads++)); .sh.value=$reads; }
counted=0
typeset -C state=(integer n=0; typeset -A names; float sum=0)
trap 'echo "usr1 at $turn" >>signals' USR1
(while read -r a b; do print -r -- $((a * b + 1)); done) |&
print "counting"
exec 4>rows
for ((turn = 1; turn <= 80; turn++)); do
	print -p $turn $((turn % 13))
	read -rp product
	((value = sin(turn) * exp(turn / 40.0) + value / 3))
	((state.n += product, state.sum += value))
	state.names[k$((turn % 7))]+=x
	{ sleep 0.06; exit $((turn % 50)); } &
	child=$!
	if ((turn % 10 == 0)); then kill -USR1 $$; fi
	wait $child
	print -u4 -f '%d %d %d %.8f %s\n' $turn $product $? "$value" "${#state.names[k$((turn % 7))]} ${counted}"
	if ((turn % 16 == 0)); then printf 'turn %d: %.6f of %d names\n' $turn "${state.sum}" ${#state.names[@]}; fi
done
exec 4>&-
print -r -- "${state.n} ${!state.names[*]}"
print -v state >state
K
ksh93 swarm.ksh
sha256sum rows signals state
