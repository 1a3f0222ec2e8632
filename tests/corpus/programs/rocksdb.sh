#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: RocksDB by its own tools: column families, a load through a pipe, scans, compactions, checkpoints, dumps of its tables
# Needs: rocksdb-tools
#SBATCH --job-name=rocksdb --ntasks=1 --output=log
set -eu
tool=$(command -v ldb || command -v rocksdb_ldb || command -v rocksdb-ldb)
l() { "$tool" --db=table "$@"; }
echo "loading"
for turn in $(seq 15); do
	for i in $(seq 300); do
		printf 'key%05d ==> value%d.%s\n' $(((turn * 7919 + i * 104729) % 5000)) $turn "$(((i * turn * 48271) % 2147483647))"
	done | l load --create_if_missing --disable_wal=false --compression_type=no >/dev/null
	l put "turn$turn" "$((turn * turn))" >/dev/null
	l get "turn$turn" >>got
	l scan --from=key00100 --to=key00400 | sha256sum >>got
	if ((turn % 5 == 0)); then
		l deleterange key01000 key01500 >/dev/null
		l compact >/dev/null
		echo "turn $turn: $(l scan | grep -c '^key') keys"
	fi
done
l create_column_family other >/dev/null
l --column_family=other put a 1 >/dev/null
l list_column_families | tail -n 1 >>got
l checkpoint --checkpoint_dir=copy >/dev/null
"$tool" --db=copy scan | sha256sum
l checkconsistency
rm -r table copy
sha256sum got
