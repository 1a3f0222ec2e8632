# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
"""Run by root: starts processes of root's and of bob's without an end, which get the same few PIDs again and again, as do all
processes of the node that start meanwhile. Each has groups and a limit of its own. When the file "stop" is there, prints the PIDs."""
import os, resource, signal, sys, time

stop, first = sys.argv[1], 5000
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
pids = set()
count = 0
while not os.path.exists(stop):
    if count % 12 == 0:
        with open('/proc/sys/kernel/ns_last_pid', 'w') as last:
            last.write(str(first))
    count += 1
    pid = os.fork()
    if pid == 0:
        try:
            limit = 777 if count % 2 else 778
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
            if count % 2:
                os.setgroups([1002, 9999])
                os.setgid(1002)
                os.setuid(1002)
            time.sleep(0.01)
        finally:
            os._exit(0)
    pids.add(pid)
print(*sorted(pids))
