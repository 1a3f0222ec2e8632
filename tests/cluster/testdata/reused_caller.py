# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
"""Calls srun.sock by processes that end while they are being answered, until the file "stop" is there. The first caller stays
until its srun has written the file "seen". The pipes of the calls stay open here, so that sruns live on after their callers.

A caller lives for 1 ms to 4 s, each order of magnitude as often, and eight are there at most: on a machine of any speed some
end before their answer and some after it."""
import array, fcntl, os, random, select, signal, socket, time

call = os.memfd_create('call', os.MFD_ALLOW_SEALING)
os.write(call, b'/\x000\x001\x00srun\x00')
fcntl.fcntl(call, 1033, 0xF)  # F_ADD_SEALS
null = os.open('/dev/null', os.O_RDWR)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps callers: their PIDs are free at once
pipes = []
lives = []  # a pipe for each caller, which is readable when it has ended


def start_caller(until):
    told, status = os.pipe()
    pipes.append(told)
    life, alive = os.pipe()
    lives.append(life)
    if os.fork() == 0:
        try:
            s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            s.connect('/run/singularity-slurm/srun.sock')
            files = array.array('i', [null, null, null, status, call])
            s.sendmsg([b'srun\0version=1\0key=\0'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])
            until()
        finally:
            os._exit(0)
    os.close(status)
    os.close(alive)


def await_ended(most):
    while len(lives) > most:
        for life in select.select(lives, [], [])[0]:
            lives.remove(life)
            os.close(life)


def await_seen():
    while not os.path.exists('seen'):
        time.sleep(0.05)


start_caller(await_seen)
await_seen()
print('called', flush=True)
while not os.path.exists('stop'):
    start_caller(lambda: time.sleep(0.001 * 4000 ** random.random()))
    await_ended(7)
    while len(pipes) > 100:
        os.close(pipes.pop(0))
await_ended(0)
print('over', flush=True)
