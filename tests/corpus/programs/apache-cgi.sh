#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: Apache with its event threads: files, CGI programs that answer slowly, ranges, locks by WebDAV, a graceful restart
# Needs: apache2 curl
#SBATCH --job-name=apache-cgi --ntasks=1 --output=log
set -eu
dir=$(mktemp -d)
mkdir "$dir/www" "$dir/cgi" "$dir/dav"
for i in $(seq 20); do seq $((i * 500)) >"$dir/www/$i.txt"; done
cat >"$dir/cgi/count" <<'C'
#!/bin/sh
echo "Content-Type: text/plain"
echo
for i in 1 2 3 4 5; do echo "$QUERY_STRING line $i"; sleep 0.1; done
C
chmod 755 "$dir/cgi/count"
m=/usr/lib/apache2/modules
cat >"$dir/conf" <<C
ServerRoot $dir
ServerName localhost
Listen 127.0.0.1:18430
PidFile $dir/pid
ErrorLog $dir/errors
DocumentRoot $dir/www
LoadModule mpm_event_module $m/mod_mpm_event.so
LoadModule authz_core_module $m/mod_authz_core.so
LoadModule cgid_module $m/mod_cgid.so
LoadModule alias_module $m/mod_alias.so
LoadModule mime_module $m/mod_mime.so
LoadModule dav_module $m/mod_dav.so
LoadModule dav_fs_module $m/mod_dav_fs.so
LoadModule deflate_module $m/mod_deflate.so
LoadModule filter_module $m/mod_filter.so
TypesConfig /dev/null
StartServers 2
ThreadsPerChild 8
MinSpareThreads 8
MaxSpareThreads 32
MaxRequestWorkers 64
Timeout 120
ScriptSock $dir/cgisock
ScriptAlias /cgi/ $dir/cgi/
DAVLockDB $dir/locks
Alias /dav $dir/dav
<Location /dav>
	DAV on
</Location>
AddOutputFilterByType DEFLATE text/plain
C
/usr/sbin/apache2 -f "$dir/conf" -k start
get() { curl -sS --retry 5 --retry-connrefused --max-time 100 "$@"; }
until get -f -o /dev/null http://127.0.0.1:18430/1.txt 2>/dev/null; do sleep 0.1; done
echo "serving"
for i in $(seq 30); do
	get "http://127.0.0.1:18430/cgi/count?$i" >>counted &
	get --compressed "http://127.0.0.1:18430/$((i % 20 + 1)).txt" -r 0-99999 | sha256sum >>sums
	get -T "$dir/www/$((i % 20 + 1)).txt" -o /dev/null -w '%{http_code}\n' "http://127.0.0.1:18430/dav/$i"
	get -X MOVE -H "Destination: http://127.0.0.1:18430/dav/moved$i" -o /dev/null -w '%{http_code}\n' "http://127.0.0.1:18430/dav/$i"
	wait $!
	if ((i % 10 == 0)); then
		/usr/sbin/apache2 -f "$dir/conf" -k graceful
		echo "round $i"
	fi
done
get -X PROPFIND -H 'Depth: 1' http://127.0.0.1:18430/dav/ | grep -o '<D:href>[^<]*' | sort | sha256sum
/usr/sbin/apache2 -f "$dir/conf" -k stop
while [ -e "$dir/pid" ]; do sleep 0.05; done
rm -r "$dir"
