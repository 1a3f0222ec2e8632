#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# Runs on a host: an ordinary user's program counts in namespaces of its own, is
# dumped, and counts on in new ones. Prints the last number when none is missing.
set -euo pipefail
images=$(mktemp -d)
log=/var/tmp/count.log
chmod 777 "$images"

# The first process of the namespaces: starts the counter, or makes room for it.
# PIDs below 300 are left to CRIU.
cat >/usr/local/bin/space <<'INIT'
#!/bin/bash
# A descriptor from outside would tie the program to that mount namespace.
for fd in /proc/self/fd/*; do
	[ "${fd##*/}" -gt 2 ] && [ "${fd##*/}" != 255 ] && eval "exec ${fd##*/}>&-"
done
ip link set lo up
if [ "$1" = start ]; then
	echo 300 >/proc/sys/kernel/ns_last_pid
	setpriv --reuid 1001 --regid 1001 --init-groups setsid bash -c \
		'i=0; while :; do echo $((++i)); sleep 0.02; done' </dev/null >>"$2" 2>/dev/null &
fi
echo up
exec sleep infinity
INIT
chmod 755 /usr/local/bin/space
install -o alice /dev/null "$log"

# space ARGS: starts the namespaces and sets init to their first process.
space() {
	exec {out}< <(exec unshare -mpnui --fork --mount-proc --kill-child /usr/local/bin/space "$@" </dev/null)
	outer=$!
	read -r -u "$out" _
	init=$(pgrep -P "$outer")
}
await() { # NUMBER: the log has got beyond it
	until [ "$(tail -n 1 "$log")" -gt "$1" ]; do
		sleep 0.02 # a file has no event that the shell could wait for
	done
}
inside() { nsenter -t "$init" -m -p -n -u -i "$@"; }
explain() { # LOG: says why criu failed
	grep Error "$images/$1" | grep -v RLIMIT_NOFILE
	exit 1
}

criu check >/dev/null
trap 'kill -9 "$init"' EXIT
space start "$log"
await 10
# The real ids must be the program's: without CAP_SYS_RESOURCE its limits are
# readable in no other way.
inside setpriv --ruid 1001 --rgid 1001 --keep-groups \
	criu dump -t 301 -D "$images" -o dump.log --network-lock skip || explain dump.log
at=$(tail -n 1 "$log")
kill -9 "$init"
space again
inside criu restore -d -D "$images" -o restore.log || explain restore.log
await $((at + 10))
head -n $((at + 10)) "$log" | cmp - <(seq $((at + 10)))
echo "counted on from $at"
