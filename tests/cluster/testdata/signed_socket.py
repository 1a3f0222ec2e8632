# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
"""Gives srun a datagram socket as standard error, and prints what a step says there, and whether the kernel names other
users than this process's as the writers."""
import os, socket, struct, subprocess

reader, writer = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
reader.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
reader.settimeout(60)
step = subprocess.Popen(['srun', 'sh', '-c', 'echo from the step >&2'], stderr=writer)
said, users = b'', set()
while b'from the step\n' not in said:
    part, control, _, _ = reader.recvmsg(4096, 256)
    said += part
    users.update(struct.unpack('iII', value)[1] for _, kind, value in control if kind == socket.SCM_CREDENTIALS)
step.wait()
print(said.decode().strip() + ', written by', 'the user' if users == {os.getuid()} else f'users {users}')
