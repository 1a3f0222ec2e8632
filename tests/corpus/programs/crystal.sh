#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: Crystal: fibers and channels, select with timeouts, garbage, a process at the other end of a pipe; compiled by LLVM
# Needs: crystal
#SBATCH --job-name=crystal --ntasks=1 --output=log
set -eu
export CRYSTAL_CACHE_DIR=$(mktemp -d)
echo "compiling"
cat >swarm.cr <<'CR'
record Sum, turn : Int32, worker : Int32, value : UInt64

def mix(x : UInt64) : UInt64
  x = (x ^ (x >> 30)) &* 0xbf58476d1ce4e5b9_u64
  x ^ (x >> 31)
end

counts = Hash(Char, Int32).new(0)
clock = Process.new("sh", ["-c", "for i in $(seq 90); do echo $i; sleep 0.08; done"], output: Process::Redirect::Pipe)
File.open("sums", "w") do |file|
  clock.output.each_line do |line|
    turn = line.to_i
    sums = Channel(Sum).new
    6.times do |w|
      spawn do
        value = 0_u64
        5000.times { |i| value &+= mix((turn * 1000 + w * 17 + i).to_u64); Fiber.yield if i % 1000 == 0 }
        sums.send Sum.new(turn, w, value)
      end
    end
    got = Array(Sum).new(6) { sums.receive }.sort_by &.worker
    late = Channel(Int32).new
    outcome = select
    when late.receive then "heard"
    when timeout(2.milliseconds) then "silence"
    end
    text = got.join(' ') { |s| "#{s.worker}:#{s.value}" }
    text.each_char { |c| counts[c] += 1 }
    file.puts "#{turn} #{text} #{outcome}"
    file.flush
    if turn % 15 == 0
      puts "turn #{turn}: #{counts['7']} sevens"
      STDOUT.flush
      GC.collect
    end
  end
end
puts "the clock ended with #{clock.wait.exit_code}"
CR
crystal build --no-color -o swarm swarm.cr
./swarm
rm -r "$CRYSTAL_CACHE_DIR" swarm
sha256sum sums
