#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: HAProxy balances between three lighttpd that are checked, one of them restarted, for curl with kept connections
# Needs: haproxy lighttpd curl
#SBATCH --job-name=haproxy-lighttpd --ntasks=1 --output=log
set -eu
dir=$(mktemp -d)
mkdir "$dir/www"
for i in $(seq 30); do seq $((i * 300)) >"$dir/www/$i"; done
start() {
	/usr/sbin/lighttpd -D -f "$dir/$1.conf" 2>/dev/null &
	servers[$1]=$!
}
declare -a servers
for n in 1 2 3; do
	cat >"$dir/$n.conf" <<-C
		server.document-root = "$dir/www"
		server.port = $((18420 + n))
		server.bind = "127.0.0.1"
		server.pid-file = "$dir/$n.pid"
		mimetype.assign = ("" => "text/plain")
	C
	start $n
done
cat >"$dir/proxy.conf" <<C
global
	nbthread 2
	stats socket $dir/stats level admin
defaults
	mode http
	timeout connect 30s
	timeout client 60s
	timeout server 60s
	retries 5
	option redispatch
frontend all
	bind 127.0.0.1:18420
	http-response set-header X-Length %[res.hdr(Content-Length)]
	default_backend web
backend web
	balance roundrobin
	option httpchk GET /1
	server a 127.0.0.1:18421 check inter 300
	server b 127.0.0.1:18422 check inter 300
	server c 127.0.0.1:18423 check inter 300
C
/usr/sbin/haproxy -f "$dir/proxy.conf" >"$dir/log" 2>&1 &
proxy=$!
until curl -sf --max-time 10 http://127.0.0.1:18420/1 >/dev/null; do sleep 0.1; done
echo "serving"
# One connection for all of these: curl takes names from a pipe and keeps it.
for i in $(seq 60); do
	printf 'url = "http://127.0.0.1:18420/%d"\n' $((i % 30 + 1))
	sleep 0.15
done | curl -sS --max-time 300 -K - >all &
long=$!
for i in $(seq 40); do
	curl -sS --retry 5 --max-time 60 -D headers "http://127.0.0.1:18420/$((i % 30 + 1))" | sha256sum >>sums
	if ((i % 10 == 0)); then
		grep -i '^x-length' headers
		kill "${servers[2]}"
		wait "${servers[2]}" || true
		start 2
		echo "fetched $i"
	fi
	sleep 0.1
done
wait $long
kill "${servers[@]}" $proxy
wait || true
rm -r "$dir" headers
sha256sum all
