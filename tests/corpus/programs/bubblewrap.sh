#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: a sandbox that the job makes by itself: bubblewrap with user, PID and mount namespaces of its own, a computation within
# Needs: bubblewrap python3
# Fails: CRIU restores no user or PID namespace below that of a program's first process, so the job is not captured and begins anew, or is over at its time limit (docs/silent-gaps.md); and its root, which the job has chosen, has no file for the LD_PRELOAD of the capsule, which the dynamic linker says at each start of a program
# Failure: ^log: line 1: .*LD_PRELOAD cannot be preloaded|ended instead of starting again: job [0-9]+ TIMEOUT|is in a container of its own
#SBATCH --job-name=bubblewrap --ntasks=1 --output=log
set -eu
cat >count.py <<'PY'
import hashlib, os, time

print("in the sandbox, process", os.getpid(), "sees", sorted(os.listdir("/")), flush=True)
digest = b"begin"
with open("digests", "w") as out, open("/tmp/scratch", "w") as scratch:
    for turn in range(100):
        for _ in range(20000):
            digest = hashlib.sha256(digest).digest()
        print(turn, digest.hex(), file=out, flush=True)
        print(digest.hex(), file=scratch, flush=True)
        if turn % 20 == 19:
            print("turn", turn + 1, digest.hex()[:16], flush=True)
        time.sleep(0.06)
print(len(open("/tmp/scratch").readlines()), "lines of scratch", flush=True)
PY
bwrap --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64 --ro-bind /etc /etc \
	--proc /proc --dev /dev --tmpfs /tmp --bind "$PWD" /work --chdir /work --unshare-all --die-with-parent \
	python3 count.py
echo "sandbox ended with $?"
