#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: python: epoll, eventfd, timerfd, pidfd, signalfd by set_wakeup_fd, subprocesses of asyncio, a pseudo-terminal
# Needs: python3
#SBATCH --job-name=python-fds --ntasks=1 --output=log
set -eu
cat >fds.py <<'PY'
import asyncio, hashlib, os, pty, select, signal, socket, subprocess, sys, threading, time

def epoll():
    poller, event = select.epoll(), os.eventfd(0, os.EFD_SEMAPHORE | os.EFD_NONBLOCK)
    timer = os.timerfd_create(time.CLOCK_MONOTONIC, flags=os.TFD_NONBLOCK)
    os.timerfd_settime(timer, initial=0.1, interval=0.1)
    here, there = socket.socketpair()
    there.setblocking(False)
    for fd in (event, timer, there.fileno()):
        poller.register(fd, select.EPOLLIN)
    count = {"event": 0, "bytes": 0}
    ticks = 0
    def feed():
        for n in range(40):
            os.eventfd_write(event, 2)
            here.sendall(b"%d" % n * 10)
            time.sleep(0.08)
        here.close()
    t = threading.Thread(target=feed)
    t.start()
    closed = False
    while not closed or count["event"] < 80:
        for fd, _ in poller.poll(5):
            if fd == event:
                os.eventfd_read(event)
                count["event"] += 1
            elif fd == timer:
                ticks += int.from_bytes(os.read(timer, 8), sys.byteorder)
            elif data := there.recv(7):
                count["bytes"] += len(data)
            else:
                closed = True
                poller.unregister(fd)
    t.join()
    print("epoll", count, ticks > 10, flush=True)

def pidfds():
    children = [subprocess.Popen(["sh", "-c", f"sleep {0.3 * n}; exit {n}"]) for n in range(1, 5)]
    poller, fds = select.poll(), {}
    for child in children:
        fd = os.pidfd_open(child.pid)
        fds[fd] = child
        poller.register(fd, select.POLLIN)
    order = []
    while fds:
        for fd, _ in poller.poll():
            poller.unregister(fd)
            order.append(fds.pop(fd).wait())
            os.close(fd)
    print("pidfd", sorted(order), flush=True)

def wakeups():
    here, there = socket.socketpair()
    there.setblocking(False)
    signal.signal(signal.SIGUSR1, lambda *a: None)
    old = signal.set_wakeup_fd(there.fileno(), warn_on_full_buffer=False)
    child = subprocess.Popen(["sh", "-c", f"for i in 1 2 3 4 5 6; do kill -USR1 {os.getpid()}; sleep 0.2; done"])
    got = b"".join(here.recv(1) for _ in range(6))
    signal.set_wakeup_fd(old)
    print("wakeups", got == bytes([signal.SIGUSR1]) * 6, child.wait(), flush=True)

def terminal():
    pid, fd = pty.fork()
    if pid == 0:
        os.execvp("sh", ["sh", "-c", 'stty -echo; test -t 0 && echo terminal; while read -r line; do echo "<$line>"; done'])
    said = b""
    for n in range(15):
        os.write(fd, b"line %d\n" % n)
        time.sleep(0.1)
    os.write(fd, b"\x04")
    while True:
        try:
            part = os.read(fd, 1000)
        except OSError:
            break
        if not part:
            break
        said += part
    lines = [line for line in said.split(b"\r\n") if line.startswith(b"<") or line == b"terminal"]
    print("terminal", len(lines), lines[-1], os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)

async def children():
    async def one(n):
        p = await asyncio.create_subprocess_exec("sh", "-c", f"for i in $(seq 5); do echo {n} $i; sleep 0.2; done; exit {n}", stdout=asyncio.subprocess.PIPE)
        out, _ = await asyncio.wait_for(p.communicate(), 60)
        return p.returncode, hashlib.sha256(out).hexdigest()[:16]
    print("children", await asyncio.gather(*(one(n) for n in range(4))), flush=True)

if __name__ == "__main__":
    print("begins", flush=True)
    epoll()
    pidfds()
    wakeups()
    terminal()
    asyncio.run(children())
PY
python3 fds.py
