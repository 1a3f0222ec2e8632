#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: shared and private mappings of files, anonymous shared memory over fork, memfd
# Needs: python3
#SBATCH --job-name=python-mmap --ntasks=1 --output=log
set -eu
cat >maps.py <<'PY'
import hashlib, mmap, os, time

SIZE = 1 << 20
with open("mapped", "wb") as f:
    f.truncate(SIZE)
f = open("mapped", "r+b")
shared = mmap.mmap(f.fileno(), SIZE)
private = mmap.mmap(f.fileno(), SIZE, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
anonymous = mmap.mmap(-1, 4096)
fd = os.memfd_create("scratch")
os.ftruncate(fd, SIZE)
memory = mmap.mmap(fd, SIZE)
print("mapped", flush=True)

child = os.fork()
if child == 0:
    # The child takes turns with its parent, which the first byte of the shared page says.
    for turn in range(60):
        while anonymous[0] != 1:
            time.sleep(0.005)
        at = turn * 4099 % (SIZE - 64)
        memory[at:at + 32] = hashlib.sha256(shared[at:at + 64]).digest()
        anonymous[0] = 0
    os._exit(7)
for turn in range(60):
    at = turn * 4099 % (SIZE - 64)
    shared[at:at + 64] = (b"%063d\n" % (turn ** 5))
    private[at] = turn
    shared.flush()
    anonymous[0] = 1
    while anonymous[0] != 0:
        time.sleep(0.005)
    if turn % 10 == 9:
        print(turn + 1, hashlib.sha256(memory[:]).hexdigest()[:20], flush=True)
    time.sleep(0.1)
print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print("private", hashlib.sha256(private[:]).hexdigest())
PY
python3 maps.py
sha256sum mapped
