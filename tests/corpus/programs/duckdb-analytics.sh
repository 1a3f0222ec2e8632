#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: DuckDB: statements from a pipe, two threads and little memory, so that joins and sorts spill to disk; CSV, Parquet, windows
# Needs: duckdb
#SBATCH --job-name=duckdb-analytics --ntasks=1 --output=log
set -eu
echo "starting"
{
	echo "SET threads = 2; SET memory_limit = '160MB'; SET temp_directory = 'spill'; SET enable_progress_bar = false;"
	echo ".mode csv"
	echo "CREATE TABLE facts (day INTEGER, item INTEGER, amount BIGINT);"
	for n in $(seq 40); do
		echo "INSERT INTO facts SELECT $n, (i * 7919 + $n) % 5000, (i * i) % 1009 FROM range(20000) t(i);"
		echo "SELECT $n, count(*), sum(amount), max(hash(item) % 1000) FROM facts WHERE day > $((n - 5));"
		if ((n % 8 == 0)); then
			echo "COPY (SELECT * FROM facts ORDER BY amount, item, day) TO 'sorted.parquet';"
			echo "SELECT md5(string_agg(item || ':' || amount, ',' ORDER BY item, amount)) FROM (SELECT item, sum(amount) AS amount FROM 'sorted.parquet' GROUP BY item);"
			echo "BEGIN; DELETE FROM facts WHERE item = $n; UPDATE facts SET amount = amount + 1 WHERE item < $n; COMMIT; CHECKPOINT;"
			echo "SELECT day, item, rank() OVER (PARTITION BY day ORDER BY all_amount DESC, item) AS place FROM (SELECT day, item, sum(amount) AS all_amount FROM facts GROUP BY day, item) QUALIFY place = 1 ORDER BY day;"
		fi
		sleep 0.1
	done
	echo "SELECT count(*), sum(a.amount * b.amount) FROM facts a JOIN facts b ON a.item = b.item AND a.day = b.day + 1;"
} | duckdb base.duckdb
rm -rf base.duckdb* sorted.parquet spill
