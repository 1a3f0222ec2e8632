#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: expect drives a shell, a calculator and a Python prompt on terminals of their own
# Needs: expect bc
#SBATCH --job-name=expect --ntasks=1 --output=log
set -eu
cat >talk.exp <<'X'
log_user 0
set timeout 60
puts "begins"; flush stdout
spawn -noecho sh
set shell $spawn_id
send "PS1='ready> '; stty -echo\r"
expect "ready> $"
expect -timeout 1 "ready> $"
spawn -noecho bc -q
set calc $spawn_id
spawn -noecho python3 -q -i -u
set python $spawn_id
expect ">>> "
set out [open heard w]
for {set i 1} {$i <= 50} {incr i} {
	send -i $calc "$i ^ 7 + 1\r"
	expect -i $calc -re {[\r\n]([0-9]+)\r\n}
	set power $expect_out(1,string)
	send -i $shell "echo \$(($i * $i)) lines: \$(seq $i | wc -l)\r"
	expect -i $shell -re {([0-9]+) lines: ([0-9]+)\r\n}
	puts $out "$i $power $expect_out(1,string) $expect_out(2,string)"
	send -i $python "print('sum', sum(range($i)))\r"
	expect -i $python -re {sum ([0-9]+)}
	puts $out "python $expect_out(1,string)"
	flush $out
	if {$i % 10 == 0} { puts "turn $i: $power"; flush stdout }
	sleep 0.1
}
send -i $python "exit()\r"
expect -i $python eof
send -i $calc "quit\r"
expect -i $calc eof
send -i $shell "exit 5\r"
expect -i $shell eof
puts "the shell ended with [lindex [wait -i $shell] 3]"
X
expect -f talk.exp
sha256sum heard
