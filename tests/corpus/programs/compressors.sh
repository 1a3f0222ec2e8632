#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: xz and zstd with their own threads, on input that arrives slowly; long windows, integrity checks
# Needs: xz-utils zstd coreutils
#SBATCH --job-name=compressors --ntasks=1 --output=log
set -eu
echo "compressing"
words() { seq $1 | while read -r n; do seq $((n * 31 % 977)) 13 $((n * 400 + 2000)); if ((n % 2 == 0)); then sleep 0.1; fi; done; }
words 160 | tee >(xz -T2 --block-size=100KiB -c >a.xz) >(zstd -q -T2 -B256K -12 -c >a.zst) >(sha256sum >sum) | zstd -q --long=24 -c >b.zst
for f in a.xz a.zst b.zst; do
	until case $f in *.xz) xz -tq $f ;; *) zstd -tq $f ;; esac 2>/dev/null; do sleep 0.1; done
	case $f in *.xz) xz -T2 -dc $f ;; *) zstd -q --long=24 -dc $f ;; esac | sha256sum | tee $f.sum
done
cmp a.xz.sum sum
xz -l --robot a.xz | grep ^totals
sha256sum a.xz b.zst
