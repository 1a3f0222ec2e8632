#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: elvish, a shell in Go: pipelines of values, maps and closures, peach with many threads, exceptions
# Needs: elvish
#SBATCH --job-name=elvish --ntasks=1 --output=log
set -eu
export HOME=$(mktemp -d) GOMAXPROCS=2
cat >swarm.elv <<'E'
use math
use str
use file
fn mix {|x| % (+ (* $x 48271) 11) 2147483647 }
var table = [&]
var out = (file:open-output rows)
echo counting
for turn [(range 1 61)] {
  var parts = [(range 8 | peach {|w|
    var x = (+ (* $turn 1000) $w)
    for _ [(range 40)] { set x = (mix $x) }
    put [$w $x]
  } | order)]
  var outcome = ok
  try { if (== 0 (% $turn 7)) { fail tired } } catch e { set outcome = (to-string $e[reason][content]) }
  set table[$turn] = $parts[0][1]
  print $turn' '(str:join ' ' [(each {|p| put (to-string $p[0])':'(to-string $p[1]) } $parts)])' '$outcome"\n" > $out
  echo (seq $turn | from-lines | each {|l| num $l } | count) > $out
  if (== 0 (% $turn 12)) { echo 'turn '$turn': '(count $table)' entries, '$parts[7][1] }
  sleep 0.08
}
file:close $out
E
elvish -norc swarm.elv
rm -r "$HOME"
sha256sum rows
