#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: D: parallel maps over ranges, message passing between threads, a garbage collector that stops them by signals
# Needs: ldc
#SBATCH --job-name=d-ldc --ntasks=1 --output=log
set -eu
echo "compiling"
cat >swarm.d <<'D'
import std.algorithm, std.array, std.concurrency, std.conv, std.format, std.parallelism, std.range, std.stdio;
import core.thread, core.memory, core.time;

ulong mix(ulong x) pure nothrow @safe
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9UL;
    return x ^ (x >> 31);
}

struct Ask { int turn; }
struct Stop {}

void worker(Tid owner, int id)
{
    for (bool go = true; go;)
        receive(
            (Ask a) { // strings that become garbage
                auto words = iota(2000).map!(i => mix(a.turn * 2000 + id * 31 + i).to!string(36)).array;
                words.sort();
                owner.send(id, words[0] ~ words[$ / 2] ~ words[$ - 1]);
            },
            (Stop s) { go = false; });
}

void main()
{
    defaultPoolThreads = 2;
    auto tids = iota(3).map!(i => spawn(&worker, thisTid, i)).array;
    auto file = File("sums", "w");
    foreach (turn; 1 .. 101)
    {
        foreach (t; tids) t.send(Ask(turn));
        string[3] got;
        foreach (_; tids) receive((int id, string s) { got[id] = s; });
        immutable sum = taskPool.reduce!"a + b"(0UL, std.algorithm.map!(i => mix(i * turn))(iota(1UL, 30000UL)));
        file.writefln("%d %s %d", turn, got[].join(" "), sum);
        file.flush();
        if (turn % 20 == 0)
        {
            writefln("turn %d: %s", turn, got[0]);
            stdout.flush();
            GC.collect();
        }
        Thread.sleep(60.msecs);
    }
    foreach (t; tids) t.send(Stop());
    thread_joinAll();
}
D
ldc2 -O2 swarm.d -of=swarm
./swarm
rm swarm swarm.o
sha256sum sums
