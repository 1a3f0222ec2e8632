#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: BIND: a name server with a zone that is updated, a second one that transfers the changes, questions by UDP and TCP
# Needs: bind9 bind9-dnsutils
#SBATCH --job-name=bind-zones --ntasks=1 --output=log
set -eu
dir=$(mktemp -d)
mkdir "$dir/a" "$dir/b"
{
	echo '$TTL 300'
	echo '@ SOA ns.example.test. root.example.test. 1 60 30 3600 60'
	echo '@ NS ns'
	echo 'ns A 127.0.0.1'
	for i in $(seq 200); do echo "host$i A 10.0.$((i / 100)).$((i % 100))"; done
} >"$dir/a/zone"
conf() {
	cat <<-C
		options { directory "$dir/$1"; listen-on port $2 { 127.0.0.1; }; listen-on-v6 { none; }; pid-file none; session-keyfile none;
		  recursion no; dnssec-validation no; notify explicit; notify-delay 0; allow-transfer { any; }; allow-new-zones no; managed-keys-directory "$dir/$1"; };
		controls { };
		zone "example.test" { $3 };
	C
}
conf a 18491 'type primary; file "zone"; allow-update { any; }; also-notify { 127.0.0.1 port 18492; };' >"$dir/a/conf"
conf b 18492 'type secondary; file "zone"; primaries port 18491 { 127.0.0.1; }; allow-notify { any; };' >"$dir/b/conf"
for n in a b; do /usr/sbin/named -n 2 -f -c "$dir/$n/conf" -L "$dir/$n/log" & done
ask() { dig +short +tries=10 +timeout=10 -p "$@" @127.0.0.1; }
until [ "$(ask 18491 host7.example.test A)" = 10.0.0.7 ] && [ "$(ask 18492 host7.example.test A)" = 10.0.0.7 ]; do sleep 0.2; done
echo "serving"
for i in $(seq 30); do
	printf 'server 127.0.0.1 18491\nzone example.test\nupdate add new%d.example.test 60 A 10.1.0.%d\nupdate delete host%d.example.test\nupdate add t.example.test 60 TXT "%d"\nsend\n' "$i" "$i" "$i" "$i" | nsupdate
	until [ "$(ask 18492 "new$i.example.test" A)" = "10.1.0.$i" ]; do sleep 0.1; done
	for k in 1 2 3; do ask 18491 "host$((i * k + 20)).example.test" A +tcp; done >>answers
	ask 18492 t.example.test TXT | sort | tail -n 1 >>answers
	if ((i % 6 == 0)); then
		dig -p 18492 @127.0.0.1 example.test AXFR +tries=10 | grep -v '^;' | sed 's/[ \t]\+/ /g' | grep -v SOA | sort | sha256sum
		echo "update $i"
	fi
done
kill %1 %2
wait || true
rm -r "$dir"
