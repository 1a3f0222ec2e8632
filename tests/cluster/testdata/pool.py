# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0

# Processes, a lock, a value and a pool, as programs use multiprocessing. Argument: start method.
import multiprocessing
import sys
import time


def count(lock, value, barrier):
    barrier.wait()
    for _ in range(150):
        with lock:
            n = value.value
            time.sleep(0.02)
            value.value = n + 1
        time.sleep(0.03)


def square(n):
    time.sleep(0.01)
    return n * n


def main():
    if sys.argv[1] != "default":
        multiprocessing.set_start_method(sys.argv[1])
    bar = multiprocessing.RLock()  # as each bar of tqdm has
    lock, value = multiprocessing.Lock(), multiprocessing.Value("i", 0)
    barrier = multiprocessing.Barrier(4)
    workers = [multiprocessing.Process(target=count, args=(lock, value, barrier)) for _ in range(3)]
    for w in workers:
        w.start()
    barrier.wait()
    for i in range(100):
        with bar:
            print(i, flush=True)
        time.sleep(0.15)
    for w in workers:
        w.join()
    with multiprocessing.Pool(2) as pool:
        print("squares", sum(pool.map(square, range(100))))
    alone = multiprocessing.Barrier(1)  # its semaphores are there as long as this process has it
    late = multiprocessing.Process(target=count, args=(lock, value, alone))
    late.start()
    late.join()
    print("value", value.value)


if __name__ == "__main__":
    main()
