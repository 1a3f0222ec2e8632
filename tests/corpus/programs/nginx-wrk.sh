#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: nginx under the load of wrk: two threads with twenty connections for ten seconds; errors are counted
# Needs: nginx-light wrk
# Fails: wrk reports an answer as a timeout if the time of day (gettimeofday) has gone on by more than 2 s since the question, and its twenty connections nearly always have a question under way when the job is captured. Stopped by SIGSTOP for 4 s, unprotected, wrk reports twenty timeouts, too
# Failure: ^log: line 4: want "", got "  Socket errors: connect 0, read 0, write 0, timeout [0-9]+"$
#SBATCH --job-name=nginx-wrk --ntasks=1 --output=log
set -eu
dir=$(mktemp -d)
mkdir "$dir/www" "$dir/tmp"
seq 2000 >"$dir/www/numbers"
cat >"$dir/conf" <<CONF
worker_processes 2;
daemon on;
pid $dir/pid;
error_log $dir/log;
events { worker_connections 64; }
http {
	access_log off;
	client_body_temp_path $dir/tmp/a; proxy_temp_path $dir/tmp/b; fastcgi_temp_path $dir/tmp/c; uwsgi_temp_path $dir/tmp/d; scgi_temp_path $dir/tmp/e;
	server { listen 127.0.0.1:8398; root $dir/www; }
}
CONF
/usr/sbin/nginx -c "$dir/conf" -e "$dir/log"
echo "serving"
wrk -t2 -c20 -d10s http://127.0.0.1:8398/numbers >"$dir/report"
# Rates, latencies and the number of requests differ between any two runs. What does not is compared: the load, that there
# were requests, and the line of errors, which wrk prints if there were any.
awk '/threads and/ { print $1, $2, $3, $4, $5 } /requests in/ { print ($1 > 0 ? "requests" : "none") } /errors|Non-2xx/' "$dir/report"
kill "$(cat "$dir/pid")"
while [ -e "$dir/pid" ]; do sleep 0.02; done
cat "$dir/log"
rm -r "$dir"
