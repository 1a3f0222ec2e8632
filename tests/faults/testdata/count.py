# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
"""Two tasks on two nodes that count in step, over TCP, until the file "stop" is there.

Each number is appended to a file, printed, and put into a file that is rewritten; some
megabytes of memory must be the same at the end. A number that is lost or comes twice, a
connection that breaks, a byte that changes: each shows in what is left behind.
"""
import hashlib, os, socket, sys, time

head, folder, size = sys.argv[1], sys.argv[2], int(sys.argv[3])
rank = int(os.environ["SLURM_PROCID"])
memory = os.urandom(size << 20)
digest = hashlib.sha256(memory).hexdigest()

if rank == 0:
    listener = socket.create_server(("", 7100))
    peer, _ = listener.accept()
else:
    while True:
        try:
            peer = socket.create_connection((head, 7100))
            break
        except OSError:
            time.sleep(0.05)
peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
talk = peer.makefile("rw", buffering=1)

out = open(f"{folder}/rank{rank}", "a", buffering=1)
print("begin", file=out)
n, stop = 0, False
while not stop:
    n += 1
    if rank == 0:
        stop = os.path.exists(f"{folder}/stop")
        print(n, "stop" if stop else "go", file=talk)
        heard = talk.readline()
        assert heard == f"{n}\n", (n, heard)
    else:
        heard = talk.readline().split()
        assert heard and heard[0] == str(n), (n, heard)
        stop = heard[1] == "stop"
        print(n, file=talk)
    print(n, file=out)
    print(rank, n, flush=True)
    with open(f"{folder}/latest{rank}", "w") as f:
        print(n, file=f)
    time.sleep(0.04)
same = hashlib.sha256(memory).hexdigest() == digest
print("end", n, "same" if same else "CHANGED", file=out)
