#!/bin/sh
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# The first process of the guest until it is systemd: a Debian machine with D-Bus, on which
# no daemon of Slurm is enabled. When it is up, systemd runs the tests; what they say is in
# /guest/out, how they ended in /guest/code.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
echo n1 >/etc/hostname
printf '127.0.0.1 localhost\n10.77.0.1 n1\n' >/etc/hosts
mount -t proc proc /proc
dpkg -i /guest/debs/*.deb >/guest/dpkg 2>&1
umount /proc
cp /guest/busybox /usr/sbin/modprobe # reads the list of modules as text, which the kernel's folder has
cd /etc/systemd/system
rm -rf timers.target.wants getty.target.wants
rm -f multi-user.target.wants/slurm* multi-user.target.wants/maria* multi-user.target.wants/munge*
mkdir -p multi-user.target.wants
# There is no network, and slurmd and proxyd want an interface that is not loopback.
cat >address.service <<'UNIT'
[Unit]
Before=network-online.target
DefaultDependencies=no
[Service]
Type=oneshot
ExecStart=ip link add eth0 type dummy
ExecStart=ip addr add 10.77.0.1/24 dev eth0
ExecStart=ip link set eth0 up
RemainAfterExit=yes
UNIT
cat >tests.service <<'UNIT'
[Unit]
After=multi-user.target
[Service]
Type=oneshot
WorkingDirectory=/root
Environment=HOME=/root
ExecStart=/bin/sh -c '/guest/systemd.test -test.v -test.timeout=20m; echo $? >/guest/code; sync'
ExecStopPost=systemctl --no-block poweroff
StandardOutput=file:/guest/out
StandardError=inherit
TimeoutStartSec=infinity
UNIT
ln -s ../address.service ../tests.service multi-user.target.wants
ln -s /dev/null serial-getty@ttyS0.service # would wait for udev
exec /lib/systemd/systemd
