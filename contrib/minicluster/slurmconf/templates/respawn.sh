#!/bin/sh
# Runs a daemon and starts it anew when it dies, as its systemd unit would. SIGTERM ends both.
child=
trap 'kill "$child" 2>/dev/null; wait "$child"; exit 0' TERM
while :; do
	"$@" &
	child=$!
	wait "$child"
	echo "minicluster: $1 ended with $?, starting it again"
	sleep 0.1
done
