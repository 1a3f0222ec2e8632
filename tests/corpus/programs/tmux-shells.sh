#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: tmux with shells within shells: job control, Ctrl-C and Ctrl-Z, less on a pipe, vim, script, /dev/tty, window sizes
# Needs: tmux less vim-tiny util-linux
#SBATCH --job-name=tmux-shells --ntasks=1 --output=log
set -eu
echo "begins"
export TERM=screen LANG=C.UTF-8
mux() { tmux -L corpus -f /dev/null "$@"; }
enter() { mux send-keys -t "$1" -l -- "$2" && mux send-keys -t "$1" Enter; }
await() { until mux capture-pane -p -t "$1" | grep -q -- "$2"; do sleep 0.02; done; }

# Two windows of different sizes, each with a shell within a shell.
mux new-session -d -s wide -x 90 -y 30 'bash --norc'
mux new-session -d -s narrow -x 70 -y 20 'bash --norc'
for w in wide narrow; do
	enter $w "PS1='outer> '"; await $w '^outer>$'
	enter $w 'bash --norc'; enter $w "PS1='inner> '"; await $w '^inner>$'
done
# In the narrow one: one more shell, on a terminal that script makes.
enter narrow "script -q -c 'bash --norc' /dev/null"; enter narrow "PS1='deep> '"; await narrow '^deep>$'
enter wide 'sleep 1000 & disown'
seq 500 >numbers; seq 500 >notes
cat >held.sh <<'IN'
trap 'echo resumed' CONT
trap 'exit 130' INT # bash takes no notice of Ctrl-C if the sleep has just ended
echo held
while :; do sleep 0.1; done
IN
for i in $(seq 6); do
	for w in wide narrow; do
		enter $w "clear; stty size </dev/tty; echo asked $i >/dev/tty; (read -r a </dev/tty; echo heard \$a \$((a * a)))"
		await $w "^asked $i$"; enter $w "$i"; await $w "^heard $i $((i * i))$"
		mux capture-pane -p -t $w | grep '^heard\|^[0-9]' >>said
		enter $w 'clear; bash held.sh'; await $w '^held$'; mux send-keys -t $w C-z; await $w 'Stopped'
		enter $w fg; await $w '^resumed$'; mux send-keys -t $w C-c; enter $w 'echo interrupted $?'; await $w '^interrupted 130$'
	done
	# less reads its keys from /dev/tty, which it opens.
	enter wide 'clear; cat numbers | less'; await wide '^2$'
	mux send-keys -t wide "$((i * 7))G"
	until [ "$(mux capture-pane -p -t wide | head -n 1)" = $((i * 7)) ]; do sleep 0.02; done
	mux send-keys -t wide q; await wide 'inner>$'
	if [ $((i % 3)) = 0 ]; then
		enter narrow "clear; vim.tiny -u NONE -i NONE -n notes"; await narrow '^500$\|^1$'
		mux send-keys -t narrow "${i}Goturn $i" Escape; await narrow "^turn $i\$"
		enter narrow ':wq'; await narrow 'deep>$'
		echo "turn $i: $(wc -l <notes) lines"
	fi
done
sha256sum notes said
mux kill-server
rm held.sh
