#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: zsh: arrays and globs, coprocesses, traps and jobs, its own pseudo-terminals and TCP, floating point
# Needs: zsh
#SBATCH --job-name=zsh --ntasks=1 --output=log
set -eu
cat >run.zsh <<'Z'
setopt extended_glob err_exit
zmodload zsh/mathfunc zsh/zpty zsh/net/tcp zsh/system zsh/zselect
print begins
ztcp -l 18497
listener=$REPLY
coproc { while read -r line; do print -r -- "${(U)line} ${#line}"; done }
end=$'\r\n'
zpty calc 'while read -r n; do print answer $((n ** 5)); done'
typeset -A seen
integer turn
float sum=0
for turn in {1..60}; do
	print -p "turn $turn of the coprocess"
	read -rp answer
	zpty -w calc $turn
	zpty -r calc said "*answer [[:digit:]]##$end"
	power=${${said##*answer }%$end}
	(( sum += sqrt(turn) * sin(turn) ))
	seen[${answer[(w)2]}]=$power
	: >file.$((turn % 7)).$((turn % 3))
	printf '%d %s %s %.10f %d\n' $turn "$answer" "$power" $sum ${#${(@f)"$(print -l file.<2->.[12](N))"}} >>steps
	(( turn % 12 )) || print "turn $turn: $sum"
	zselect -t 10 || true
done
ztcp 127.0.0.1 18497
client=$REPLY
ztcp -a $listener
server=$REPLY
print -u $client "over TCP ${(j:,:)${(kOn)seen}[1,5]}"
read -ru $server line
print -r -- $line
ztcp -c
zpty -d calc
rm file.*
coproc : # ends the first one
TRAPUSR1() { print "signal after $turn" }
kill -USR1 $$
(sleep 0.3; exit 7) &
wait $! || print "child ended with $?"
Z
zsh -f run.zsh
sha256sum steps
