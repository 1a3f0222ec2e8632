#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: GNU parallel runs hundreds of small shells, two at a time, and keeps their order
# Needs: parallel
#SBATCH --job-name=gnu-parallel --ntasks=1 --output=log
set -eu
export PARALLEL_HOME=$(mktemp -d)
: >"$PARALLEL_HOME/will-cite"
echo "handing out"
seq 60 | parallel -j 2 -k 'sleep 0.1; echo {} $(seq {} | sha256sum | cut -c1-24)' >hashes
echo "first $(sha256sum <hashes)"
parallel -j 3 -k --halt never 'sleep 0.0{1}; expr {1} "*" {2}' ::: 3 5 7 9 ::: $(seq 20) >products
echo "second $(sha256sum <products)"
cat hashes | parallel -j 2 -k --pipe -N 6 'sleep 0.2; wc -c; cat' >counted
echo "third $(sha256sum <counted)"
seq 30 | parallel -j 2 --tag -k 'test $(({} % 10)) -ne 0 || exit 4; sleep 0.05; echo fine' >fine 2>/dev/null || echo "$? failed"
rm -r "$PARALLEL_HOME"
wc -l fine
