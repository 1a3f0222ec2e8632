#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: ffmpeg: pictures and sound are made, piped into an encoder with threads, cut in segments, scaled, and decoded again
# Needs: ffmpeg
#SBATCH --job-name=ffmpeg-encode --ntasks=1 --output=log
set -eu
echo "encoding"
ffmpeg -nostdin -loglevel error -f lavfi -i testsrc2=size=640x360:rate=25 -t 30 -f yuv4mpegpipe - |
	ffmpeg -loglevel error -f yuv4mpegpipe -i - -f lavfi -i sine=frequency=330:beep_factor=5 -shortest -c:v libx264 -c:a aac film.mp4
echo "cutting"
ffmpeg -nostdin -loglevel error -i film.mp4 -c copy -f hls -hls_time 4 -hls_list_size 0 film.m3u8
ffmpeg -nostdin -loglevel error -i film.m3u8 -vf scale=320:180,hue=s=0 -c:v mpeg4 -q:v 4 -c:a flac small.avi
ffmpeg -nostdin -loglevel error -i small.avi -f framemd5 frames
ffprobe -loglevel error -show_entries stream=codec_name,nb_read_frames -count_frames -of csv film.mp4
tail -n 2 frames
sha256sum film.mp4 film.m3u8 film*.ts | sha256sum
