#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: what a process is given by nice, ionice, prlimit, umask, taskset, prctl and its folder, looked at all along
# Needs: util-linux python3
#SBATCH --job-name=process-attributes --ntasks=1 --output=log
set -eu
cat >look.py <<'PY'
import ctypes, os, resource, signal, sys, time
libc = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG, PR_GET_PDEATHSIG, PR_SET_NAME, PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER, PR_GET_DUMPABLE, PR_SET_TIMERSLACK, PR_GET_TIMERSLACK = 1, 2, 15, 36, 37, 3, 29, 30
libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
libc.prctl(PR_SET_NAME, b"corpus-name")
libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
libc.prctl(PR_SET_TIMERSLACK, 123456)
os.makedirs("deep/er", exist_ok=True)
os.chdir("deep/er")
os.setpgid(0, 0)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
os.kill(os.getpid(), signal.SIGUSR2)

def look():
    death, reaper = ctypes.c_int(), ctypes.c_int()
    libc.prctl(PR_GET_PDEATHSIG, ctypes.byref(death))
    libc.prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(reaper))
    mask = os.umask(0)
    os.umask(mask)
    return {
        "nice": os.getpriority(os.PRIO_PROCESS, 0), "umask": oct(mask), "policy": os.sched_getscheduler(0),
        "files": resource.getrlimit(resource.RLIMIT_NOFILE), "core": resource.getrlimit(resource.RLIMIT_CORE),
        "stack": resource.getrlimit(resource.RLIMIT_STACK)[0], "processes": resource.getrlimit(resource.RLIMIT_NPROC)[0],
        "death": death.value, "reaper": reaper.value, "dumpable": libc.prctl(PR_GET_DUMPABLE), "slack": libc.prctl(PR_GET_TIMERSLACK),
        "name": open("/proc/self/comm").read().strip(), "folder": os.getcwd().split("/")[-2:], "leads": os.getpgid(0) == os.getpid(),
        "pending": sorted(signal.sigpending()), "ignored": signal.getsignal(signal.SIGHUP) == signal.SIG_IGN,
        "ionice": libc.syscall(252, 1, 0), "no new privileges": libc.prctl(39, 0, 0, 0, 0), "personality": libc.personality(0xFFFFFFFF),
        "keep": os.environ.get("KEEP"), "groups": sorted(os.getgroups()) == sorted(set(os.getgroups())),
    }

first = look()
print("begins", flush=True)
for turn in range(80):
    now = look()
    for key in first:
        if now[key] != first[key]:
            print("turn", turn, key, "was", first[key], "and is", now[key], flush=True)
            first[key] = now[key]
    time.sleep(0.1)
del first["processes"]
print(first)
PY
umask 027
KEEP="a b" nice -n 5 ionice -c 2 -n 7 prlimit --nofile=512:1024 --core=0 --stack=4194304 setpriv --no-new-privs setarch --addr-no-randomize chrt --batch 0 python3 look.py &
wait $!
rmdir deep/er deep
