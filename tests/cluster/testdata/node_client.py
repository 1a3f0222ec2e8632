# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
"""A client of node_daemon.py: keeps a connection to SOCKET, the argument, connects again when the connection is closed, and
writes to syslog. Prints how often it has connected again."""
import socket, sys, syslog, time

def connect():
    s = socket.socket(socket.AF_UNIX)
    s.connect(sys.argv[1])
    return s

def ask(s, n):
    try:
        s.sendall(b'%d\n' % n)
        return s.recv(100).decode().strip()
    except (BrokenPipeError, ConnectionResetError):
        return ''

s, again = connect(), 0
for n in range(100):
    while not (got := ask(s, n)):
        s, again = connect(), again + 1
    syslog.syslog('asked %d' % n)
    print(n, got, flush=True)
    time.sleep(0.15)
print('again', again)
