#!/bin/sh
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# Runs with the tree as $1 once all packages are installed: what the packages
# leave undone, what a cluster wants to find, what no cluster may share.
set -eu
root=$1

die() {
	echo "E: customize: $*"
	exit 1
}

# forky keeps its data in /var/lib/mariadb, older suites in /var/lib/mysql: one
# place for all.
if [ -d "$root/var/lib/mariadb/mysql" ]; then
	rm -rf "$root/var/lib/mysql"
	mv "$root/var/lib/mariadb" "$root/var/lib/mysql"
	ln -s mysql "$root/var/lib/mariadb"
fi
[ -f "$root/var/lib/mysql/ibdata1" ] && [ -d "$root/var/lib/mysql/mysql" ] ||
	die "the database's package made no data folder"
chroot "$root" chown -R mysql:mysql /var/lib/mysql

mkdir -p "$root/shared" "$root/var/log/slurm" "$root/var/spool/slurmctld" "$root/var/spool/slurmd"
chroot "$root" chown slurm:slurm /var/log/slurm /var/spool/slurmctld
chmod 0755 "$root/shared" "$root/var/log/slurm" "$root/var/spool/slurmctld" "$root/var/spool/slurmd"

# Secrets and identities are each cluster's own; mirrors and proxies are the host's.
rm -f "$root/etc/munge/munge.key" "$root/etc/hostname" "$root/etc/resolv.conf" \
	"$root/etc/apt/apt.conf.d/99mmdebstrap" "$root/etc/apt/sources.list"
rm -rf "$root/etc/apt/sources.list.d" "$root"/etc/ssh/ssh_host_*
: >"$root/etc/machine-id"

# A tree whose programs do not start is not worth keeping. Slurm's clients say
# their version only with a configuration; slurmdbd not even then.
printf 'ClusterName=none\nSlurmctldHost=none\n' >"$root/tmp/slurm.conf"
for c in "slurmctld -V" "slurmd -V" "slurmrestd -V" "sacctmgr -V" "srun -V" \
	"mariadbd --version" "munged --version"; do
	SLURM_CONF=/tmp/slurm.conf chroot "$root" $c || die "$c does not run"
done
[ ! -e "$root/usr/sbin/criu" ] || chroot "$root" criu --version || die "criu --version does not run"
for u in munge:401:401 mysql:402:402 slurmrestd:403:403 slurm:64030:64030 \
	alice:1001:1001 bob:1002:1002 operator:1003:100; do
	n=${u%%:*}
	[ "$n:$(chroot "$root" id -u "$n"):$(chroot "$root" id -g "$n")" = "$u" ] || die "user $n is not $u"
done
