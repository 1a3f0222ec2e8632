#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: Tcl with threads: a pool, scripts sent from one to another, shared variables, condition variables, channels handed over
# Needs: tcl tcl-thread
#SBATCH --job-name=tcl-threads --ntasks=1 --output=log
set -eu
cat >swarm.tcl <<'TCL'
package require Thread
puts "counting"; flush stdout
set pool [tpool::create -minworkers 2 -maxworkers 4 -initcmd {
	proc mix {x} { set y [expr {(($x ^ ($x >> 30)) * 13787848793156543929) & 0xffffffffffffffff}]; expr {$y ^ ($y >> 31)} }
}]
set clerk [thread::create {
	set lines 0
	proc note {chan line} { puts $chan $line; flush $chan; incr ::lines }
	thread::wait
}]
set out [open sums w]
thread::transfer $clerk $out
tsv::set board turn 0
set lock [thread::mutex create]; set cond [thread::cond create]
set watcher [thread::create -joinable [string map [list LOCK $lock COND $cond] {
	thread::mutex lock LOCK
	while {[tsv::get board turn] < 100} { thread::cond wait COND LOCK }
	thread::mutex unlock LOCK
	tsv::set board watcher "saw turn [tsv::get board turn]"
}]]
for {set turn 1} {$turn <= 100} {incr turn} {
	set jobs {}
	for {set w 0} {$w < 4} {incr w} {
		lappend jobs [tpool::post $pool [list apply {{turn w} {
			set sum 0
			for {set i 0} {$i < 1500} {incr i} { incr sum [mix [expr {$turn * 1000 + $w * 17 + $i}]] }
			tsv::incr board done
			return $sum
		}} $turn $w]]
	}
	set left $jobs
	while {[llength $left]} { tpool::wait $pool $left left }
	set sums [lmap j $jobs {tpool::get $pool $j}]
	thread::send -async $clerk [list note $out "$turn $sums"]
	thread::mutex lock $lock
	tsv::set board turn $turn
	thread::cond notify $cond
	thread::mutex unlock $lock
	if {$turn % 20 == 0} { puts "turn $turn: [tsv::get board done] jobs done"; flush stdout }
	after 70 {set tick 1}; vwait tick
}
thread::send $clerk {set lines} lines
thread::join $watcher
puts "the clerk wrote $lines lines, the watcher [tsv::get board watcher]"
thread::send $clerk "close $out"
thread::release $clerk
TCL
tclsh swarm.tcl
sha256sum sums
