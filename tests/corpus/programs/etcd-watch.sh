#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: etcd: a server, writers and transactions, a watch and a lease kept alive all along, a snapshot
# Needs: etcd-server etcd-client
#SBATCH --job-name=etcd-watch --ntasks=1 --output=log
set -eu
dir=$(mktemp -d)
url=http://127.0.0.1:18410
etcd --name one --data-dir "$dir/data" --listen-client-urls $url --advertise-client-urls $url --listen-peer-urls http://127.0.0.1:18411 \
	--initial-advertise-peer-urls http://127.0.0.1:18411 --initial-cluster one=http://127.0.0.1:18411 --log-level error 2>"$dir/log" &
server=$!
ctl() { etcdctl --endpoints=$url --dial-timeout=60s --command-timeout=60s "$@"; }
until ctl endpoint health >/dev/null 2>&1; do sleep 0.1; done
echo "serving"
ctl watch --prefix a/ >seen 2>complaints &
watcher=$!
lease=$(ctl lease grant 600 | cut -d ' ' -f 2)
ctl lease keep-alive "$lease" >/dev/null &
keeper=$!
ctl put --lease="$lease" leased yes
until ctl put a/start 0 >/dev/null && [ -s seen ]; do sleep 0.1; done
for i in $(seq 40); do
	ctl put "a/$((i % 7))" "$i squared is $((i * i))" >/dev/null
	printf 'value("counter") > "%d"\n\nput counter %d\n\nput counter 1\nput "a/began" "at %d"\n\n' 0 $((i + 1)) "$i" | ctl txn >/dev/null
	if ((i % 8 == 0)); then
		ctl del a/3
		ctl get --prefix a/ | sha256sum
		echo "round $i"
	fi
	sleep 0.05
done
ctl put a/end done
until grep -q '^done$' seen; do sleep 0.05; done
kill $watcher
ctl get counter
ctl get leased
kill $keeper
ctl lease revoke "$lease" >/dev/null
echo "leased: $(ctl get leased)"
ctl snapshot save "$dir/snapshot" >/dev/null 2>&1
kill $server
wait $server $watcher $keeper || true
etcdutl snapshot restore "$dir/snapshot" --data-dir "$dir/again" 2>/dev/null
ls "$dir/again/member"
grep -v -e '^a/start$' -e '^0$' seen | uniq >seen.2 && mv seen.2 seen
rm -r "$dir" complaints
