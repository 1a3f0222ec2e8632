#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: gRPC in Python: calls, streams in both directions that last for the whole run, deadlines, a server in a process of its own
# Needs: python3-grpcio
#SBATCH --job-name=grpc-streams --ntasks=1 --output=log
set -eu
cat >streams.py <<'PY'
import hashlib, multiprocessing, time
from concurrent import futures
import grpc

def serve(ready):
    def add(request, context):
        return str(sum(map(int, request.split()))).encode()

    def count(request, context):
        for n in range(int(request)):
            yield b"%d %s" % (n, hashlib.sha256(b"%d" % n).hexdigest().encode())
            time.sleep(0.1)

    def talk(requests, context):
        h = hashlib.sha256()
        for r in requests:
            h.update(r)
            yield h.hexdigest().encode()

    def slow(request, context):
        time.sleep(0.3)
        context.abort(grpc.StatusCode.FAILED_PRECONDITION, "not for " + request.decode())

    server = grpc.server(futures.ThreadPoolExecutor(8))
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("test.Numbers", {
        "Add": grpc.unary_unary_rpc_method_handler(add), "Count": grpc.unary_stream_rpc_method_handler(count),
        "Talk": grpc.stream_stream_rpc_method_handler(talk), "Slow": grpc.unary_unary_rpc_method_handler(slow)})])
    server.add_insecure_port("127.0.0.1:18460")
    server.start()
    ready.set()
    server.wait_for_termination()

def main():
    ready = multiprocessing.Event()
    server = multiprocessing.Process(target=serve, args=(ready,), daemon=True)
    server.start()
    ready.wait()
    print("serving", flush=True)
    with grpc.insecure_channel("127.0.0.1:18460") as channel:
        add, slow = channel.unary_unary("/test.Numbers/Add"), channel.unary_unary("/test.Numbers/Slow")
        counted = []
        counter = futures.ThreadPoolExecutor(1).submit(lambda: counted.extend(channel.unary_stream("/test.Numbers/Count")(b"80")))
        def questions():
            for n in range(80):
                yield b"question %d" % n
                time.sleep(0.1)
        for n, answer in enumerate(channel.stream_stream("/test.Numbers/Talk")(questions())):
            calls = [add.future(f"{n} {k}".encode()) for k in range(10)]
            total = sum(int(c.result()) for c in calls)
            if n % 10 == 9:
                try:
                    slow(b"%d" % n)
                except grpc.RpcError as e:
                    print("answer", n + 1, answer.decode()[:16], total, e.code().name, e.details(), flush=True)
        counter.result()
        print("counted", len(counted), hashlib.sha256(b"".join(counted)).hexdigest())
    server.terminate()
    server.join()

if __name__ == "__main__":
    main()
PY
python3 streams.py
rm streams.py
