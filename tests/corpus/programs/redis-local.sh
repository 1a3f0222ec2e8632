#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: a redis server on a unix socket, redis-cli as client, expiry, Lua, save and reload
# Needs: redis-server redis-tools
#SBATCH --job-name=redis-local --ntasks=1 --output=log
set -eu
dir=$(mktemp -d)
server() {
	redis-server --port 0 --unixsocket "$dir/sock" --dir "$dir" --save '' --appendonly yes --appendfsync no --logfile "$dir/log" &
	until redis-cli -s "$dir/sock" ping 2>/dev/null | grep -q PONG; do sleep 0.02; done
}
cli() { redis-cli -s "$dir/sock" "$@"; }
echo "serving"
server
for i in $(seq 50); do
	for k in $(seq 20); do
		echo "ZINCRBY scores $((i * k % 37)) player$((k * i % 50))"
		echo "RPUSH list$((k % 5)) $((i * k))"
		echo "HINCRBY hash field$((i % 9)) $k"
		echo "SETBIT bits $((i * k * 13 % 4096)) 1"
	done | cli --pipe >/dev/null
	cli EVAL "redis.call('APPEND', 'text', ARGV[1]) return redis.call('STRLEN', 'text')" 0 "turn $i;" >>lengths
	cli PUBLISH news "$i" >/dev/null
	if ((i % 10 == 0)); then echo "turn $i: $(cli ZSCORE scores player4) $(cli BITCOUNT bits)"; fi
	if ((i == 25)); then
		cli BGREWRITEAOF >/dev/null
		until cli INFO persistence | grep -q 'aof_rewrite_in_progress:0'; do sleep 0.02; done
		cli SHUTDOWN
		wait
		server
	fi
	sleep 0.08
done
{ cli ZRANGE scores 0 -1 WITHSCORES; cli GET text; cli HGETALL hash; for l in 0 1 2 3 4; do cli LRANGE list$l 0 -1; done; } >dump
cli SHUTDOWN
wait
rm -r "$dir"
sha256sum dump
