#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: ruby: fibers, threads, big integers, marshalled objects over a pipe to a fork
# Needs: ruby
#SBATCH --job-name=ruby-fibers --ntasks=1 --output=log
set -eu
cat >fibers.rb <<'RUBY'
require "digest"
$stdout.sync = true
puts "resuming"
r, w = IO.pipe
child = fork do
  w.close
  seen = Digest::SHA256.new
  loop { seen << Marshal.load(r).inspect } rescue EOFError
  File.write("child", seen.hexdigest + "\n")
  exit! 5
end
r.close
fib = Fiber.new { a, b = 0, 1; loop { Fiber.yield a; a, b = b, a + b } }
squares = Enumerator.produce(1) { |n| n * n % 1_000_003 + 1 }
lock, log = Mutex.new, []
threads = 3.times.map do |n|
  Thread.new { 40.times { |i| lock.synchronize { log << [n, i, Digest::MD5.hexdigest("#{n}#{i}")] }; sleep 0.1 } }
end
75.times do |i|
  value = { turn: i, fib: (1..10).map { fib.resume }.last, square: squares.next, words: %w[a b c].cycle.take(i % 7) }
  Marshal.dump(value, w)
  w.flush
  puts "turn #{i + 1}: #{value[:fib].to_s.size} digits" if i % 15 == 14
  sleep 0.09
end
w.close
threads.each(&:join)
Process.wait(child)
puts "child #{$?.exitstatus}, #{log.size} logged"
File.write("sorted", log.sort.map { |l| l.join(" ") }.join("\n") + "\n")
RUBY
ruby fibers.rb
cat child
