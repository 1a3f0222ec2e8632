#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: an inference server with a request loop: it is asked over a pipe and remembers what it was asked
# Needs: slurm-client
#SBATCH --job-name=serve-requests --nodes=1 --gpus-per-node=1 --output=log
set -eu
bin=/shared/corpus/bin
coproc server { "$bin/serve"; }
for i in $(seq 100); do
	echo "request $i of a shell" >&"${server[1]}"
	read -r answer <&"${server[0]}"
	echo "$i $answer"
	sleep 0.05
done >answers
echo quit >&"${server[1]}"
wait "$server_PID"
tail -n 1 answers
sha256sum answers
