#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: a MariaDB server (many threads, InnoDB) and a client session that is open all along
# Needs: mariadb-server
#SBATCH --job-name=mariadb --ntasks=1 --output=log
set -eu
export PATH=$PATH:/usr/sbin
dir=$(mktemp -d)
mariadb-install-db --no-defaults --datadir="$dir/data" --auth-root-authentication-method=normal --skip-test-db >/dev/null 2>&1
mariadbd --no-defaults --datadir="$dir/data" --socket="$dir/sock" --pid-file="$dir/pid" --skip-networking \
	--innodb-buffer-pool-size=16M --innodb-log-file-size=8M --innodb-flush-method=nosync 2>"$dir/log" &
until mariadb-admin --no-defaults -S "$dir/sock" -u root ping >/dev/null 2>&1; do sleep 0.05; done
echo "server is up"
{
	echo "CREATE DATABASE d; USE d; CREATE TABLE t(id INT AUTO_INCREMENT PRIMARY KEY, n BIGINT, s VARCHAR(80), KEY(n)) ENGINE=InnoDB;"
	for i in $(seq 60); do
		echo "START TRANSACTION;"
		for k in $(seq 10); do echo "INSERT INTO t(n, s) VALUES($((i * k * 7919 % 1000)), SHA1('$i/$k'));"; done
		echo "UPDATE t SET n = n + $i WHERE n % 7 = $((i % 7));"
		if ((i % 9 == 0)); then echo "ROLLBACK;"; else echo "COMMIT;"; fi
		if ((i % 10 == 0)); then echo "SELECT 'turn $i', COUNT(*), SUM(n), MD5(GROUP_CONCAT(s ORDER BY n, s)) FROM t;"; fi
		sleep 0.08
	done
	echo "SET SESSION group_concat_max_len = 10000000; SELECT COUNT(*), SUM(n), SHA2(GROUP_CONCAT(n, s ORDER BY n, s), 256) FROM t;"
} | mariadb --no-defaults -S "$dir/sock" -u root -N -n | tee answers
mariadb-admin --no-defaults -S "$dir/sock" -u root shutdown
wait
rm -r "$dir"
