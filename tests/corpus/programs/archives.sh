#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: tar streams through gzip, xz and zstd, split in pieces, put together and compared
# Needs: tar gzip xz-utils zstd coreutils
#SBATCH --job-name=archives --ntasks=1 --output=log
set -eu
mkdir data
for i in $(seq 18); do
	mkdir -p data/$((i % 5))
	seq $i 7 $((i * 5000)) | awk '{ print $1, $1 * $1 % 1013, "text" }' >data/$((i % 5))/$i
done
echo "packing $(find data -type f | wc -l) files"
slow() { # a pipe that lasts: 64 kB at a time
	local n=0
	while head -c 65536 >piece.$1 && [ -s piece.$1 ]; do cat piece.$1; sleep 0.02; done
	rm piece.$1
}
pack() { tar -C data --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -cf - .; }
for tool in "gzip -6n" "xz -1 -T1" "zstd -9 -q -T1"; do
	name=${tool%% *}
	pack | slow $name | $tool | tee >(sha256sum >$name.sum) | split -b 100000 - $name.part.
	mkdir $name
	cat $name.part.* | $name -dc | slow $name | tar -C $name -xf -
	diff -r data $name && echo "$name: $(cat $name.part.* | wc -c) bytes"
	rm -r $name $name.part.*
done
rm -r data
cat ./*.sum
