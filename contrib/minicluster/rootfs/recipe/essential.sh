#!/bin/sh
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# Runs with the tree as $1 once the essential packages are installed and before
# all others are. It makes the accounts, so that every suite has the same
# numbers: a package whose account exists already leaves it alone. The files are
# written directly because useradd is not there yet on every suite.
set -eu
etc=$1/etc

group() { # name gid [members]
	echo "$1:x:$2:${3-}" >>"$etc/group"
	if [ -f "$etc/gshadow" ]; then echo "$1:!::${3-}" >>"$etc/gshadow"; fi
}

user() { # name uid gid home shell
	echo "$1:x:$2:$3::$4:$5" >>"$etc/passwd"
	if [ -f "$etc/shadow" ]; then echo "$1:*:20000:0:99999:7:::" >>"$etc/shadow"; fi
}

# Daemons. 4xx is free for good: adduser counts up from 100, systemd-sysusers
# counts down from 999. 64030 is slurm's own number in Debian.
group munge 401
group mysql 402
group slurmrestd 403
group slurm 64030
user munge 401 401 /nonexistent /usr/sbin/nologin
user mysql 402 402 /nonexistent /bin/false
user slurmrestd 403 403 /nonexistent /usr/sbin/nologin
user slurm 64030 64030 /nonexistent /usr/sbin/nologin

# People. Their homes are on the folder that all hosts share; the cluster makes them.
# Debian has a group "operator" (37) with rights of its own, so the user
# operator has the ordinary primary group "users" (100) instead of one of his own.
group alice 1001
group bob 1002
group proj 2000 alice
user alice 1001 1001 /shared/home/alice /bin/bash
user bob 1002 1002 /shared/home/bob /bin/bash
user operator 1003 100 /shared/home/operator /bin/bash

# The database's package makes its data folder when it is configured: with these
# settings in place it comes out small.
mkdir -p "$etc/mysql/mariadb.conf.d"
cat >"$etc/mysql/mariadb.conf.d/99-minicluster.cnf" <<'CNF'
# A throw-away database: small, quick to start, reached over its socket only.
# Nothing is synced: the data survives a killed server, not a power cut.
[mysqld]
datadir                             = /var/lib/mysql
skip-networking
skip-name-resolve
max_connections                     = 64
open_files_limit                    = 4096
table_open_cache                    = 400
key_buffer_size                     = 1M
aria_pagecache_buffer_size          = 1M
innodb_buffer_pool_size             = 32M
loose-innodb_buffer_pool_size_max   = 32M
innodb_log_file_size                = 4M
innodb_undo_tablespaces             = 0
innodb_flush_log_at_trx_commit      = 2
innodb_flush_method                 = nosync
innodb_use_native_aio               = OFF
innodb_buffer_pool_dump_at_shutdown = OFF
innodb_buffer_pool_load_at_startup  = OFF
# What slurmdbd asks for; with snapshot isolation it says that it will end one day.
innodb_lock_wait_timeout            = 900
loose-innodb_snapshot_isolation     = OFF
CNF
