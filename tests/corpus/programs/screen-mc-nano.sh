#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: GNU screen with a file manager and an editor in its windows, which are told their keys from outside and copied as text
# Needs: screen mc nano
#SBATCH --job-name=screen-mc-nano --ntasks=1 --output=log
set -eu
echo "begins"
export HOME=$(mktemp -d) TERM=xterm LANG=C.UTF-8 EDITOR=nano MC_XDG_OPEN=true
export SCREENDIR=$HOME/screens
mkdir -m 700 "$SCREENDIR"
printf 'defhstatus ""\nstartup_message off\nshell /bin/sh\n' >"$HOME/rc"
mkdir files to
for i in $(seq 40); do seq $((i * 20)) >files/number$i; done
sc() { screen -S corpus -X "$@"; }
shot() { rm -f "$HOME/shot"; sc -p "$1" hardcopy "$HOME/shot"; until [ -s "$HOME/shot" ]; do sleep 0.02; done; cat "$HOME/shot"; }
await() { until shot "$1" | grep -aq -- "$2"; do sleep 0.05; done; }
type() { sc -p "$1" stuff "$2"; }
screen -c "$HOME/rc" -d -m -S corpus -t shell
sleep 0.3
type shell $'PS1="ready> "; clear\n'; await shell '^ready>'
sc screen -t editor nano -I notes; await editor '[Nn]ew'
sc screen -t manager mc -a -u -d "$PWD/files" "$PWD/to"; await manager number10
for i in $(seq 40); do
	type editor "turn $i and its square $((i * i))"$'\r'; await editor "turn $i and"
	type shell "clear; wc -l <files/number$i"$'\n'; await shell "^$((i * 20))"
	if ((i % 10 == 0)); then
		type editor $'\x0f'; await editor 'Write to File'; type editor $'\r'; await editor 'Wrote'
		echo "turn $i: $(wc -l <notes) lines"
	fi
	if ((i % 4 == 0)); then # by the command line of the manager, beside its panels
		type manager "cp number$i ../to"$'\r'
		until cmp -s "files/number$i" "to/number$i"; do sleep 0.05; done
	fi
done
type editor $'\x18'
sc -p manager kill
sc -p shell stuff $'exit\n'
while screen -S corpus -Q windows >/dev/null 2>&1; do sleep 0.05; done
sha256sum notes
cat to/* | sha256sum
rm -rf "$HOME"
