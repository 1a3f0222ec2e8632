#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: GStreamer pipelines with a thread behind each queue: test pictures and sounds are made, mixed, encoded, muxed and read again
# Needs: gstreamer1.0-tools gstreamer1.0-plugins-base gstreamer1.0-plugins-good
#SBATCH --job-name=gstreamer --ntasks=1 --output=log
set -eu
export HOME=$(mktemp -d)
echo "mixing"
gst-launch-1.0 -q \
	videotestsrc num-buffers=240 pattern=ball ! video/x-raw,width=320,height=240,framerate=24/1 ! identity sleep-time=40000 ! queue ! tee name=t \
	t. ! queue ! videoscale ! video/x-raw,width=160,height=120 ! videoconvert ! pngenc ! multifilesink location=ball%03d.png \
	t. ! queue ! videoflip method=clockwise ! videoconvert ! jpegenc ! avimux ! filesink location=film.avi \
	audiotestsrc num-buffers=430 wave=sine freq=440 ! audio/x-raw,rate=44100 ! queue ! audioconvert ! wavenc ! filesink location=sound.wav &
for n in 040 080 120 160 200; do
	until [ -s ball$n.png ]; do sleep 0.02; done
	echo "picture $n is there"
done
wait
gst-launch-1.0 -q filesrc location=film.avi ! avidemux ! jpegdec ! videoconvert ! video/x-raw,format=I420 ! filesink location=frames.yuv
gst-launch-1.0 -q filesrc location=sound.wav ! wavparse ! audioconvert ! audioresample ! audio/x-raw,rate=16000 ! flacenc ! filesink location=sound.flac
cat ball*.png | sha256sum
rm -r ball*.png "$HOME"
sha256sum film.avi frames.yuv sound.wav sound.flac
