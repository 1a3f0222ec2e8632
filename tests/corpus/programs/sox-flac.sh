#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: sox synthesises music, filters it in a pipeline, flac packs and checks it
# Needs: sox flac
#SBATCH --job-name=sox-flac --ntasks=1 --output=log
set -eu
echo "playing"
for i in $(seq 12); do
	note=$((220 + i * 20))
	sox -R -D -n -r 22050 -c 2 -t sox - synth 4 pluck $note synth 4 sine mix $((note * 2)) tremolo 5 gain -3 |
		sox -R -D -t sox - -b 16 -t raw - lowpass 2500 chorus 0.5 0.8 50 0.3 0.2 2 -t reverb 30 |
		flac -s -5 -f --no-padding --force-raw-format --endian=little --sign=signed --channels=2 --bps=16 --sample-rate=22050 -o "part$i.flac" -
	flac -s -t "part$i.flac"
	echo "part $i $(flac -s -d -c --force-raw-format --endian=little --sign=signed "part$i.flac" | sha256sum)" | tee -a parts
	sleep 0.2
done
sox -R -D part?.flac part1?.flac -t raw - gain -6 rate -v 16000 | sha256sum
rm part*.flac
