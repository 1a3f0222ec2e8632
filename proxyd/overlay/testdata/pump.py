# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
"""Two of these send each other a known stream over one TCP connection, and each sends
itself one over 127.0.0.1. In the end it writes how much it received, and its hash.

usage: pump.py listen|ADDRESS NAME BYTES FOLDER
"""
import hashlib, os, socket, sys, threading, time

peer, name, total, folder = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
CHUNK = 8192


def block(seed, n):
    return b"".join(hashlib.sha256(b"%s %d %d" % (seed, n, i)).digest() for i in range(CHUNK // 32))


def send(sock, seed):
    for n in range(total // CHUNK):
        sock.sendall(block(seed, n))
        time.sleep(0.002)
    sock.shutdown(socket.SHUT_WR)


def receive(sock, what):
    h, got = hashlib.sha256(), 0
    while True:
        data = sock.recv(65536)
        if not data:
            break
        h.update(data)
        got += len(data)
        with open(f"{folder}/{name}.{what}.new", "w") as f:
            f.write(str(got))
        os.rename(f"{folder}/{name}.{what}.new", f"{folder}/{name}.{what}")
    with open(f"{folder}/{name}.{what}.done.new", "w") as f:
        f.write(f"{got} {h.hexdigest()}")
    os.rename(f"{folder}/{name}.{what}.done.new", f"{folder}/{name}.{what}.done")


def listen(address):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(address)
    s.listen(1)
    return s


if peer == "listen":
    s = listen(("0.0.0.0", 7000))
    open(f"{folder}/{name}.ready", "w").close()
    sock, _ = s.accept()
else:
    sock = socket.create_connection((peer, 7000))
s = listen(("127.0.0.1", 7001))
out = socket.create_connection(("127.0.0.1", 7001))
back, _ = s.accept()
work = [
    threading.Thread(target=send, args=(sock, name.encode())),
    threading.Thread(target=send, args=(out, b"lo " + name.encode())),
    threading.Thread(target=receive, args=(back, "lo")),
]
for t in work:
    t.start()
receive(sock, "net")
for t in work:
    t.join()
