#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: an event loop with servers and clients on TCP and unix sockets, timers and executors
# Needs: python3
#SBATCH --job-name=python-asyncio --ntasks=1 --output=log
set -eu
cat >loop.py <<'PY'
import asyncio, hashlib, os, tempfile

totals = {}

async def serve(reader, writer):
    h = hashlib.sha256()
    while line := await reader.readline():
        h.update(line)
        writer.write(f"{len(line)} {h.hexdigest()}\n".encode())
        await writer.drain()
    writer.close()

async def client(name, reader, writer, pause):
    out = open(f"{name}.log", "w")
    for i in range(70):
        writer.write(f"{name} says {'x' * (i * 11 % 97)} {i}\n".encode())
        await writer.drain()
        answer = (await reader.readline()).decode()
        out.write(answer)
        totals[name] = totals.get(name, 0) + int(answer.split()[0])
        await asyncio.sleep(pause)
    writer.close()
    out.close()

async def clock():
    for tick in range(1, 8):
        await asyncio.sleep(1)
        print("tick", tick, flush=True)

async def main():
    print("loop runs", flush=True)
    folder = tempfile.mkdtemp()
    path = os.path.join(folder, "socket")
    tcp = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = tcp.sockets[0].getsockname()[1]
    unix = await asyncio.start_unix_server(serve, path)
    async with asyncio.TaskGroup() as group:
        group.create_task(clock())
        for n in range(3):
            group.create_task(client(f"tcp{n}", *await asyncio.open_connection("127.0.0.1", port), 0.10))
            group.create_task(client(f"unix{n}", *await asyncio.open_unix_connection(path), 0.09))
    tcp.close()
    unix.close()
    await unix.wait_closed() # removes the socket's name too
    os.rmdir(folder)
    for name in sorted(totals):
        print(name, totals[name])

asyncio.run(main())
PY
python3 loop.py
cat tcp?.log unix?.log | sha256sum
