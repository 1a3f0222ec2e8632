#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: fish: functions, lists, event handlers, jobs in the background, string and math builtins, psub, a read loop
# Needs: fish
#SBATCH --job-name=fish --ntasks=1 --output=log
set -eu
export HOME=$(mktemp -d)
cat >swarm.fish <<'F'
set -g seen 0
function on_turn --on-event turn_done
    set -g seen (math $seen + 1)
end
function on_change --on-variable level
    echo "level $level" >>levels
end
function mix --argument-names x
    math "($x * 48271 + 11) % 2147483647"
end
echo counting
set -l x 7
set -l table
for turn in (seq 60)
    set x (mix $x)
    set -a table $x
    set -l parts (string split '' $x | sort | string join '')
    sleep 0.05 &
    set -l job (jobs -lp)
    begin
        echo $turn; echo $parts
    end | while read -l line
        echo -n "$line "
    end >>rows
    diff (echo $table[1..3] | psub) (echo $table[-3..-1] | psub) | count >>rows
    wait $job
    emit turn_done
    if test (math $turn % 12) -eq 0
        set -g level (count $table)
        set -e table[1..6]
        printf 'turn %d: %s of %d\n' $turn $table[1] (count $table)
    end
end
status is-interactive; or echo "seen $seen, "(string match -r '\d+ of \d+' "it is $seen of 60")
false | true
echo "pipe $pipestatus"
F
fish --no-config swarm.fish
rm -r "$HOME"
sha256sum rows levels
