#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: nginx with two workers serves a tree to curl, one slow download lasts the whole run
# Needs: nginx-light curl
#SBATCH --job-name=nginx-curl --ntasks=1 --output=log
set -eu
dir=$(mktemp -d)
mkdir "$dir/www" "$dir/tmp"
for i in $(seq 40); do seq $((i * 200)) >"$dir/www/$i"; done
seq 60000 >"$dir/www/big"
cat >"$dir/conf" <<CONF
worker_processes 2;
daemon on;
pid $dir/pid;
error_log $dir/log;
events { worker_connections 64; }
http {
	access_log off;
	client_body_temp_path $dir/tmp/a; proxy_temp_path $dir/tmp/b; fastcgi_temp_path $dir/tmp/c; uwsgi_temp_path $dir/tmp/d; scgi_temp_path $dir/tmp/e;
	server { listen 127.0.0.1:8397; root $dir/www; location = /big { limit_rate 40k; } }
}
CONF
/usr/sbin/nginx -c "$dir/conf" -e "$dir/log"
echo "serving"
curl -sS http://127.0.0.1:8397/big | sha256sum >big.sum &
for i in $(seq 40); do
	curl -sS --max-time 60 "http://127.0.0.1:8397/$i" "http://127.0.0.1:8397/$((i * 7 % 40 + 1))" -r 100-9000 | sha256sum >>sums
	if ((i % 8 == 0)); then echo "fetched $i"; fi
	sleep 0.15
done
wait
cat big.sum
kill "$(cat "$dir/pid")"
while [ -e "$dir/pid" ]; do sleep 0.02; done
rm -r "$dir"
sha256sum sums
