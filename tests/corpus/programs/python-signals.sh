#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: interval timers, alarms, blocked and queued real-time signals between parent and child
# Needs: python3
#SBATCH --job-name=python-signals --ntasks=1 --output=log
set -eu
cat >signals.py <<'PY'
import os, signal, subprocess, sys, time

alarms = 0
def on_alarm(number, frame):
    global alarms
    alarms += 1
    if alarms % 10 == 0:
        print("alarm", alarms, flush=True)
    if alarms == 60:
        signal.setitimer(signal.ITIMER_REAL, 0)

signal.signal(signal.SIGALRM, on_alarm)
print("timers on", flush=True)
signal.setitimer(signal.ITIMER_REAL, 0.05, 0.1)
while alarms < 60:
    signal.pause()
print("timer off:", signal.getitimer(signal.ITIMER_REAL))

# Real-time signals queue up while they are blocked, and keep their order.
queued = {signal.SIGRTMIN + n for n in range(4)}
signal.pthread_sigmask(signal.SIG_BLOCK, queued | {signal.SIGUSR2})
child = subprocess.Popen([sys.executable, "-c", """
import os, signal, time
for i in range(40):
    os.kill(os.getppid(), signal.SIGRTMIN + i % 4)
    time.sleep(0.05)
os.kill(os.getppid(), signal.SIGUSR2)
"""])
signal.sigwait({signal.SIGUSR2})
print("pending", sorted(n - signal.SIGRTMIN for n in signal.sigpending() & queued))
with open("queued", "w") as f:
    while got := signal.sigtimedwait(queued, 0):
        print(got.si_signo - signal.SIGRTMIN, got.si_uid == os.getuid(), file=f)
print("child", child.wait())
PY
python3 signals.py
sort queued | uniq -c
