# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0

# Counts to 60 in a container, into files of the container's root, its /tmp and its /run as well, and
# then says what these have. Argument: a name for the files.
import os
import sys
import time

name = os.environ.get("SLURM_PROCID", "0") + "-" + sys.argv[1]
print(name, "in", open("/etc/os-release").read().strip(), "at", os.getcwd(), flush=True)
os.makedirs("/tmp/of-job", exist_ok=True)
paths = ["/data/" + name, "/tmp/of-job/" + name, "/run/" + name]
files = [open(path, "w") for path in paths]
for n in range(60):
    print(name, n, flush=True)
    for f in files:
        f.write(f"{n}\n")
        f.flush()
    time.sleep(0.15)
privileges = [line.split()[1] for line in open("/proc/self/status") if line.startswith("NoNewPrivs")]
print(name, "wrote", [len(open(path).readlines()) for path in paths], "NoNewPrivs", *privileges, flush=True)
