#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: ZeroMQ: a ventilator, three workers and a sink by TCP and by sockets in files, publishers, requests through a proxy
# Needs: python3-zmq
#SBATCH --job-name=zeromq-pipeline --ntasks=1 --output=log
set -eu
cat >pipeline.py <<'PY'
import hashlib, multiprocessing, os, tempfile, threading, time
import zmq

def work(name, folder):
    context = zmq.Context()
    tasks, results, orders = context.socket(zmq.PULL), context.socket(zmq.PUSH), context.socket(zmq.SUB)
    tasks.connect(f"ipc://{folder}/tasks")
    results.connect("tcp://127.0.0.1:18470")
    orders.connect("tcp://127.0.0.1:18471")
    orders.subscribe(b"stop")
    poller = zmq.Poller()
    poller.register(tasks, zmq.POLLIN)
    poller.register(orders, zmq.POLLIN)
    while True:
        ready = dict(poller.poll())
        if tasks in ready:
            n, text = tasks.recv_multipart()
            results.send_multipart([n, hashlib.sha256(text).hexdigest().encode()])
        elif orders in ready:
            break
    context.destroy(linger=None)

def answer(folder):
    context = zmq.Context()
    socket = context.socket(zmq.REP)
    socket.connect(f"ipc://{folder}/back")
    while (text := socket.recv()) != b"end":
        socket.send(text[::-1])
    socket.send(b"ended")
    context.destroy(linger=None)

def main():
    folder = tempfile.mkdtemp()
    children = [multiprocessing.Process(target=work, args=(n, folder)) for n in range(3)]
    children.append(multiprocessing.Process(target=answer, args=(folder,)))
    for c in children:
        c.start()
    context = zmq.Context()
    tasks, sink, orders = context.socket(zmq.PUSH), context.socket(zmq.PULL), context.socket(zmq.XPUB)
    orders.setsockopt(zmq.XPUB_VERBOSE, 1)  # says each subscription, not each topic once
    tasks.bind(f"ipc://{folder}/tasks")
    sink.bind("tcp://127.0.0.1:18470")
    orders.bind("tcp://127.0.0.1:18471")
    for _ in range(3):
        orders.recv()  # each worker's subscription
    front, back = context.socket(zmq.ROUTER), context.socket(zmq.DEALER)
    front.bind("inproc://front")
    back.bind(f"ipc://{folder}/back")
    threading.Thread(target=zmq.proxy, args=(front, back), daemon=True).start()
    ask = context.socket(zmq.REQ)
    ask.connect("inproc://front")
    print("serving", flush=True)
    h = hashlib.sha256()
    for turn in range(1, 81):
        for n in range(20):
            tasks.send_multipart([b"%d" % n, b"%d %d " % (turn, n) * 200])
        got = dict(sink.recv_multipart() for _ in range(20))
        for n in range(20):
            h.update(got[b"%d" % n])
        ask.send(b"question %d" % turn)
        h.update(ask.recv())
        if turn % 10 == 0:
            print("turn", turn, h.hexdigest()[:16], flush=True)
        time.sleep(0.08)
    orders.send(b"stop")
    ask.send(b"end")
    print(ask.recv().decode())
    for c in children:
        c.join()
    print([c.exitcode for c in children], flush=True)
    for name in ("tasks", "back"):
        os.unlink(f"{folder}/{name}")
    os.rmdir(folder)
    os._exit(0)  # the proxy has no end

if __name__ == "__main__":
    main()
PY
python3 pipeline.py
rm pipeline.py
