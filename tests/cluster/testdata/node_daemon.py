# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
"""A daemon of a node, with arguments SOCKET [LOG]: doubles the numbers that come by SOCKET, and puts what comes by
/dev/log into the file LOG."""
import os, socket, sys, threading

def bound(kind, path):
    if os.path.exists(path):
        os.unlink(path)
    s = socket.socket(socket.AF_UNIX, kind)
    s.bind(path)
    os.chmod(path, 0o666)
    return s

def serve(connection):
    for line in connection.makefile():
        connection.sendall(b'%d\n' % (2 * int(line)))

def keep_log(log, path):
    with open(path, 'w') as f:
        while True:
            print(log.recv(1000).decode(), file=f, flush=True)

if len(sys.argv) > 2:
    threading.Thread(target=keep_log, args=(bound(socket.SOCK_DGRAM, '/dev/log'), sys.argv[2]), daemon=True).start()
listener = bound(socket.SOCK_STREAM, sys.argv[1])
listener.listen()
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
