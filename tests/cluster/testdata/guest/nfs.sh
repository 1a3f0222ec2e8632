#!/bin/sh
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# The first process of the guest: an NFS server, mounted twice from this machine as two
# nodes would, with nothing in common but the server; and the tests of the store there.
# What they say is in /guest/out, how they ended in /guest/code.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc -o nosuid,nodev,noexec proc /proc
mount -t sysfs -o nosuid,nodev,noexec sysfs /sys
mount -t devtmpfs dev /dev
mount -t tmpfs -o nosuid,nodev tmpfs /tmp
mkdir -p /dev/shm /export /n1 /n2 /local /var/lib/nfs/v4recovery
mount -t tmpfs -o nosuid,nodev tmpfs /dev/shm
ip link set lo up
hostname n1

# serve exports /export to this machine, as /etc/exports, exportfs and rpc.mountd would: it
# answers the three questions that nfsd has before nfsd asks. 9218 is insecure (any port),
# no_subtree_check and fsid; root stays root. The answers hold until 2038.
serve() {
	mount -t tmpfs -o mode=755,size=600M store /export
	mount -t nfsd nfsd /proc/fs/nfsd
	echo 'nfsd 127.0.0.1 2147483647 guest' >/proc/net/rpc/auth.unix.ip/channel
	echo 'guest 1 \x00000000 2147483647 /export' >/proc/net/rpc/nfsd.fh/channel
	echo 'guest /export 2147483647 9218 65534 65534 0' >/proc/net/rpc/nfsd.export/channel
	echo 10 >/proc/fs/nfsd/nfsv4leasetime
	echo 10 >/proc/fs/nfsd/nfsv4gracetime
	echo '-3' >/proc/fs/nfsd/versions # which would want rpcbind
	echo 'tcp 2049' >/proc/fs/nfsd/portlist
	echo 4 >/proc/fs/nfsd/threads
}

{
	echo "guest: $(uname -r), up for $(cut -d ' ' -f 1 /proc/uptime) s"
	code=1
	if serve && for n in n1 n2; do
		# A client's number is its own, not one for both mounts of this machine.
		mount -i -t nfs4 -o "vers=4.2,addr=127.0.0.1,clientaddr=127.0.0.1,nosharecache,hard" 127.0.0.1:/ /$n || exit
	done; then
		grep nfs4 /proc/mounts
		cd /local
		code=0
		if [ -d /guest/dead ]; then # the test cuts the server off
			cp -r /guest/dead/. .
			TEST_NFS=/n1 ./shared.test -test.v -test.timeout=4m -test.run '^TestDeadServer$' || code=$?
		fi
		if [ -d /guest/store ]; then
			cp -r /guest/store/. .
			TMPDIR=/n1 ./posix.test -test.v -test.timeout=10m || code=$?
			# Writers and collectors on both nodes; then the tests of single calls that need a folder.
			for tests in '^Test(WritersAndCollectors|EverybodyIsTakenForDead|CarriersAndCollectors)$/^posix$' '^TestTamper$/^(folder|symbolic link)$' \
				'^Test(Carry|CarryKilled|Newest|Fenced|DeadProcess|Export|Compact|Reserv|RoundTrip|NodesCommit|WriterEnds)'; do
				TMPDIR=/n1 STORE_TEST_MOUNTS=/n1:/n2 ./store.test -test.v -test.timeout=15m -test.run "$tests" || code=$?
			done
		fi
	else
		dmesg | tail -n 30
	fi
	echo "guest: up for $(cut -d ' ' -f 1 /proc/uptime) s"
} >/guest/out 2>&1
echo "$code" >/guest/code
sync
echo o >/proc/sysrq-trigger
exec sleep 1000
