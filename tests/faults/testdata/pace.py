# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
"""Appends the lines of a training to the file "losses", and says in "latest0" how many there are.

It is slow and its pipe is short: the training never computes far ahead of what is written, and leaves the
processors to others. A training that begins anew shows as a second "begin".
"""
import fcntl, os, sys, time

if os.environ["SLURM_PROCID"] != "0":
    assert sys.stdin.read() == ""
    sys.exit()
fcntl.fcntl(0, fcntl.F_SETPIPE_SZ, 4096)
with open("losses", "a", buffering=1) as losses:
    print("begin", file=losses)
    for n, line in enumerate(open(0, "rb", buffering=128), 1):
        losses.write(line.decode())
        with open("latest0", "w") as f:
            print(n, file=f)
        if not os.path.exists("stop"):
            time.sleep(0.04)
