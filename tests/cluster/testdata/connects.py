# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0

# Prints how connect() ends, when it waits and when it does not. Arguments: HOST:PORT… [without waiting]
import errno
import select
import socket
import sys

places, without = sys.argv[1:], "waiting" in sys.argv
for place in places[:-2] if without else places:
    host, port = place.split(":")
    if not without:
        with socket.socket() as s:
            print(port, "waits:", errno.errorcode.get(s.connect_ex((host, int(port))), "connected"), flush=True)
    with socket.socket() as s:
        s.setblocking(False)
        begun = errno.errorcode[s.connect_ex((host, int(port)))]
        p = select.poll()
        p.register(s, select.POLLOUT)
        p.poll()
        e = s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        print(port, begun, "then", errno.errorcode.get(e, "connected"), flush=True)
