#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: Nim: compiled by way of C; threads with channels, async procedures on a dispatcher, iterators, tables, big strings
# Needs: nim gcc
#SBATCH --job-name=nim --ntasks=1 --output=log
set -eu
echo "compiling"
export HOME=$(mktemp -d)
cat >swarm.nim <<'NIM'
import std/[asyncdispatch, tables, strutils, strformat, algorithm, os, hashes, sequtils]

var
  ask: array[3, Channel[int]]
  answers: Channel[(int, uint64)]

proc mix(x: uint64): uint64 =
  result = (x xor (x shr 30)) * 0xbf58476d1ce4e5b9'u64
  result = result xor (result shr 31)

proc work(w: int) {.thread.} =
  while true:
    let turn = ask[w].recv
    if turn < 0: break
    var sum = 0'u64
    for i in 0 ..< 40000: sum += mix(uint64(turn * 1000 + w * 17 + i))
    answers.send (w, sum)

iterator primes(n: int): int =
  for i in 2 .. n:
    if toSeq(2 .. i - 1).allIt(i mod it != 0): yield i

proc later(turn, n: int): Future[int] {.async.} =
  await sleepAsync(5 * (4 - n))
  return turn * n

proc gather(turn: int): Future[string] {.async.} =
  let all = await all(later(turn, 1), later(turn, 2), later(turn, 3))
  return all.join("+")

proc main() =
  var
    threads: array[3, Thread[int]]
    counts = initCountTable[char]()
    file = open("sums", fmWrite)
  answers.open
  for w in 0 .. 2:
    ask[w].open
    createThread(threads[w], work, w)
  for turn in 1 .. 90:
    for w in 0 .. 2: ask[w].send turn
    let got = toSeq(0 .. 2).mapIt(answers.recv).sorted
    let line = &"{turn} {got} {waitFor gather(turn)} {toSeq(primes(60 + turn)).len}"
    for c in line: counts.inc c
    file.writeLine line
    file.flushFile
    if turn mod 15 == 0: echo &"turn {turn}: {counts['1']} ones"
    sleep 50
  for w in 0 .. 2: ask[w].send -1
  joinThreads threads
  file.close
main()
NIM
nim c -d:release --threads:on --hints:off --warnings:off --verbosity:0 --nimcache:"$HOME/cache" -o:swarm swarm.nim
./swarm
rm -r "$HOME" swarm
sha256sum sums
