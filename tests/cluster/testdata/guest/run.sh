#!/bin/sh
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# The first process of the guest: a node with cgroup v2 only, its Slurm, and the tests
# that need them. What they say is in /guest/out, how they ended in /guest/code.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc -o nosuid,nodev,noexec proc /proc
mount -t sysfs -o nosuid,nodev,noexec sysfs /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
for folder in /run /tmp /dev/shm; do
	mount -t tmpfs -o nosuid,nodev tmpfs "$folder"
done
mount -t cgroup2 -o nosuid,nodev,noexec cgroup2 /sys/fs/cgroup

hostname n1
ip link set lo up
ip addr add 10.77.0.1/32 dev lo # slurmd wants an address that is not loopback's
printf '127.0.0.1 localhost\n10.77.0.1 n1\n' >/etc/hosts
mkdir -p /etc/slurm /etc/munge /run/munge /var/spool/slurmctld /var/log/munge /var/lib/munge
cat >/etc/slurm/slurm.conf <<'CONF'
ClusterName=guest
SlurmctldHost=n1
SlurmUser=root
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldLogFile=/tmp/slurmctld.log
SlurmdLogFile=/tmp/slurmd.log
SlurmdDebug=debug2
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup
JobAcctGatherType=jobacct_gather/cgroup
JobAcctGatherFrequency=1
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
MpiDefault=none
KillWait=2
ReturnToService=2
NodeName=n1 CPUs=1 RealMemory=1000
PartitionName=main Nodes=n1 Default=YES
CONF
cat >/etc/slurm/cgroup.conf <<'CONF'
CgroupPlugin=cgroup/v2
IgnoreSystemd=yes
EnableControllers=yes
ConstrainCores=yes
ConstrainRAMSpace=yes
CONF
head -c 1024 /dev/urandom >/etc/munge/munge.key
chmod 600 /etc/munge/munge.key
chown -R munge:munge /etc/munge /run/munge /var/log/munge /var/lib/munge
chmod 700 /etc/munge
chmod 755 /run/munge
{
	echo "guest: $(uname -r), up for $(cut -d ' ' -f 1 /proc/uptime) s"
	setpriv --reuid munge --regid munge --clear-groups munged
	slurmctld
	slurmd
	# The test waits for the node itself.
	cd /root
	CAPSULE_TOOLS=/guest /guest/capsule.test -test.v -test.timeout=150s -test.run='^TestSlurm'
	code=$?
	/guest/checkpoint.test -test.v -test.timeout=150s -test.run='^TestSlurm' || code=$?
	[ "$code" = 0 ] || tail -n 40 /tmp/slurmctld.log /tmp/slurmd.log
	echo "guest: up for $(cut -d ' ' -f 1 /proc/uptime) s"
} >/guest/out 2>&1
echo "$code" >/guest/code
sync
echo o >/proc/sysrq-trigger
exec sleep 1000
