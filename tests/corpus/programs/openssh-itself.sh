#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: an SSH server of the user's own and its clients: commands, copies, a shared connection, a forwarded port, a terminal
# Needs: openssh-server openssh-client python3
#SBATCH --job-name=openssh-itself --ntasks=1 --output=log
set -eu
dir=$(mktemp -d)
ssh-keygen -q -t ed25519 -N '' -f "$dir/host"
ssh-keygen -q -t ed25519 -N '' -f "$dir/key"
cp "$dir/key.pub" "$dir/authorized"
cat >"$dir/sshd" <<C
Port 18450
ListenAddress 127.0.0.1
HostKey $dir/host
AuthorizedKeysFile $dir/authorized
StrictModes no
UsePAM no
PidFile $dir/pid
Subsystem sftp internal-sftp
C
cat >"$dir/config" <<C
Host self
	HostName 127.0.0.1
	Port 18450
	IdentityFile $dir/key
	UserKnownHostsFile $dir/known
	StrictHostKeyChecking accept-new
	LogLevel ERROR
C
/usr/sbin/sshd -D -f "$dir/sshd" -E "$dir/log" &
server=$!
run() { ssh -F "$dir/config" "$@"; }
until run self true 2>/dev/null; do sleep 0.1; done
echo "serving"
run -M -S "$dir/master" -N -f -L 127.0.0.1:18451:127.0.0.1:18452 self
for i in $(seq 60); do
	echo "number $i is $((i * i * i))"
	sleep 0.15
done | run self 'while read -r line; do echo "there: $line"; done; echo "no more"' >stream &
stream=$!
for i in $(seq 15); do
	run -S "$dir/master" self "seq $((i * 100)) | sha256sum"
	seq $((i * 2000)) >sent
	scp -q -F "$dir/config" -o "ControlPath=$dir/master" sent self:"$dir/there"
	printf 'rename %s %s\nls -1 %s\nget %s got\n' "$dir/there" "$dir/there2" "$dir/there2" "$dir/there2" | sftp -q -b - -F "$dir/config" self | grep -v '^sftp>' | sed "s|$dir||"
	cmp sent got
	python3 -c 'import socket; s = socket.create_server(("127.0.0.1", 18452)); c, _ = s.accept(); c.sendall(c.recv(100).upper())' &
	listener=$!
	python3 - <<-'PY'
		import socket
		while True:  # the listener behind the tunnel may not be there yet
		    try:
		        with socket.create_connection(("127.0.0.1", 18451)) as s:
		            s.sendall(b"through the tunnel")
		            if (got := s.recv(100)):
		                print(got.decode(), flush=True)
		                break
		    except ConnectionError:
		        pass
	PY
	wait $listener
	if ((i % 5 == 0)); then run -tt self 'tty >/dev/null && stty -a | grep -c echo; exit 3' </dev/null || echo "the terminal's shell ended with $?"; fi
	echo "round $i"
done
wait $stream
run -S "$dir/master" -O exit self 2>/dev/null
kill $server
wait $server || true
rm -r "$dir" sent got
