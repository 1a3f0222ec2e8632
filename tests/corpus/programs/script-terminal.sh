#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: script has a shell on a terminal of its own: job control, stty, read with a timeout, a progress line
# Needs: util-linux
#SBATCH --job-name=script-terminal --ntasks=1 --output=log
set -eu
echo "begins"
cat >inner.sh <<'IN'
set -m
stty rows 40 cols 100 -echo
test -t 1 && stty size
sleep 1000 & kill -STOP %1
for i in $(seq 60); do
	printf '\r%3d of 60' "$i"
	read -r -t 0.1 line || true
done
printf '\n'
jobs
kill -CONT %1; kill %1
wait %1 2>/dev/null || echo "ended with $?"
stty size
IN
script -qefc "bash inner.sh" typescript </dev/null >said
tr '\r' '\n' <said | sha256sum
tr -d '\r' <said | tail -n 4
rm typescript # has the time in it
