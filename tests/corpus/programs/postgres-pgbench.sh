#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: a PostgreSQL server on a unix socket under pgbench with a fixed seed, then a checksum of all tables
# Needs: postgresql
#SBATCH --job-name=postgres-pgbench --ntasks=1 --output=log
set -eu
export PATH=$(echo /usr/lib/postgresql/*/bin):$PATH LC_ALL=C PGUSER=postgres
dir=$(mktemp -d)
export PGHOST=$dir PGDATA=$dir/data PGDATABASE=postgres
initdb --username=postgres --no-sync --auth=trust >/dev/null
pg_ctl -w -s -l "$dir/log" -o "-k $dir -c listen_addresses= -c fsync=off -c shared_buffers=16MB" start
echo "server is up"
pgbench -i -q -s 1 2>/dev/null >/dev/null
psql -qAt -c "ALTER TABLE pgbench_history ADD n serial"
# One client: the order of transactions is part of the result. The pause leaves
# the server, its workers and the client waiting for each other in turns.
cat >transactions.sql <<'SQL'
\set aid random(1, 100000)
\set bid 1
\set tid random(1, 10)
\set delta random(-5000, 5000)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;
UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, :delta, '2026-01-01');
END;
\sleep 10 ms
SQL
for round in 1 2 3 4 5; do
	pgbench -n -c 1 -t 100 --random-seed=$round -f transactions.sql >/dev/null
	psql -qAt -c "SELECT 'round $round', count(*), sum(delta) FROM pgbench_history"
done
for t in accounts:aid tellers:tid branches:bid history:n; do
	psql -qAt -c "SELECT '${t%:*}', count(*), md5(string_agg(x::text, ',' ORDER BY ${t#*:})) FROM pgbench_${t%:*} x"
done | tee tables
pg_ctl -s -w stop
rm -r "$dir"
