#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: the sqlite3 program reads statements from a pipe: recursive queries, windows, triggers
# Needs: sqlite3
#SBATCH --job-name=sqlite-shell --ntasks=1 --output=log
set -eu
echo "asking"
{
	cat <<'SQL'
PRAGMA journal_mode = TRUNCATE;
PRAGMA synchronous = OFF;
CREATE TABLE n(i INTEGER PRIMARY KEY, collatz INT, digest TEXT);
CREATE TABLE audit(i INT, what TEXT);
CREATE TRIGGER t AFTER INSERT ON n BEGIN INSERT INTO audit VALUES (new.i, 'made ' || new.collatz); END;
SQL
	for i in $(seq 60); do
		cat <<SQL
BEGIN;
WITH RECURSIVE c(start, x, len) AS (
	SELECT value, value, 0 FROM generate_series($i * 20, $i * 20 + 19)
	UNION ALL SELECT start, CASE x % 2 WHEN 0 THEN x / 2 ELSE 3 * x + 1 END, len + 1 FROM c WHERE x > 1)
INSERT INTO n SELECT start, max(len), hex(start * 2654435761) FROM c GROUP BY start;
UPDATE n SET digest = digest || (SELECT count(*) FROM audit) WHERE i % 13 = $i % 13;
COMMIT;
SQL
		if ((i % 10 == 0)); then
			echo "SELECT 'turn $i', max(collatz), (SELECT sum(r) FROM (SELECT rank() OVER (ORDER BY collatz) r FROM n)) FROM n;"
		fi
		sleep 0.1
	done
	echo ".output dump.sql"
	echo ".dump"
} | sqlite3 -batch numbers.db
rm numbers.db
sha256sum dump.sql
