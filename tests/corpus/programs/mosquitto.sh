#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: mosquitto: a broker, publishers that feed it from pipes, subscribers with sessions, a retained message
# Needs: mosquitto mosquitto-clients
#SBATCH --job-name=mosquitto --ntasks=1 --output=log
set -eu
dir=$(mktemp -d)
printf 'listener 18397 127.0.0.1\nallow_anonymous true\npersistence true\npersistence_location %s/\n' "$dir" >"$dir/conf"
/usr/sbin/mosquitto -c "$dir/conf" 2>/dev/null &
broker=$!
until mosquitto_pub -p 18397 -t up -m 1 2>/dev/null; do sleep 0.05; done
echo "serving"
mosquitto_sub -p 18397 -c -i one -q 1 -t 'a/+' -E # sessions that messages wait for
mosquitto_sub -p 18397 -c -i two -q 2 -t 'b/#' -E
mosquitto_sub -p 18397 -c -i one -q 1 -t 'a/+' -C 80 >a &
one=$!
mosquitto_sub -p 18397 -c -i two -q 2 -t 'b/#' -C 81 -F '%t %p' >b &
two=$!
for i in $(seq 80); do
	echo "number $i is $((i * i * i))"
	sleep 0.1
done | mosquitto_pub -p 18397 -q 1 -t a/numbers -l &
for i in $(seq 80); do
	mosquitto_pub -p 18397 -q 2 -t "b/$((i % 5))" -m "$i $(seq $i | md5sum)"
	if ((i % 16 == 0)); then echo "published $i"; fi
	sleep 0.05
done
mosquitto_pub -p 18397 -r -q 2 -t b/last -m end
wait $one $two
mosquitto_sub -p 18397 -t b/last -C 1
kill $broker
wait $broker || echo "broker ended with $?"
rm -r "$dir"
sha256sum a b
