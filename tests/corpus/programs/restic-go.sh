#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: a Go program with many threads: restic backs a changing tree up, checks and restores it
# Needs: restic
#SBATCH --job-name=restic-go --ntasks=1 --output=log
set -eu
dir=$(mktemp -d)
export RESTIC_REPOSITORY=$dir/repo RESTIC_PASSWORD=secret RESTIC_CACHE_DIR=$dir/cache GOMAXPROCS=2
restic -q init
echo "backing up"
mkdir "$dir/tree"
for round in 1 2 3; do
	for i in $(seq 12); do
		seq $((i * round)) 13 $((i * round * 3000)) >"$dir/tree/$(((i + round) % 20))"
		sleep 0.02
	done
	restic -q backup --host node --tag "round$round" "$dir/tree"
	(cd "$dir/tree" && sha256sum ./*) | sort >"expected.$round"
	echo "round $round: $(restic snapshots --json | gojq length) snapshots"
done
restic -q check --read-data
for round in 1 2 3; do
	restic -q restore --tag "round$round" --target "$dir/out$round" latest >/dev/null
	(cd "$dir/out$round$dir/tree" && sha256sum ./*) | sort | cmp - "expected.$round" && echo "round $round is back"
done
rm -rf "$dir"
