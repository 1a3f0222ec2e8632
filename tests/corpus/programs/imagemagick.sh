#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: ImageMagick draws, blurs, warps and compares pictures, one after another
# Needs: imagemagick
#SBATCH --job-name=imagemagick --ntasks=1 --output=log
set -eu
export MAGICK_THREAD_LIMIT=1
echo "painting"
magick -size 320x240 -seed 11 plasma:tomato-steelblue PPM:picture
for i in $(seq 24); do
	magick picture -virtual-pixel mirror -distort Arc $((20 + i * 3)) -resize '320x240!' -blur 0x1.5 \
		-fill "rgb($((i * 10)),0,$((255 - i * 10)))" -draw "circle $((i * 12)),120 $((i * 12)),$((110 - i))" PPM:next
	magick compare -metric AE picture next null: 2>difference || true
	mv next picture
	echo "$i $(cut -d' ' -f1 difference) $(sha256sum <picture)" >>frames
	if ((i % 6 == 0)); then echo "frame $i"; fi
	sleep 0.1
done
magick picture -colors 16 -format '%k colours, mean %[fx:mean]\n' info:
rm difference
sha256sum frames
