#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: Tcl's event loop: timers, a server and client on a local port, file events, a pipe
# Needs: tcl
#SBATCH --job-name=tcl-events --ntasks=1 --output=log
set -eu
cat >events.tcl <<'TCL'
fconfigure stdout -buffering line
puts "events"
set digest 17
proc serve {chan addr port} {
	fconfigure $chan -buffering line
	fileevent $chan readable [list answer $chan]
}
proc answer {chan} {
	if {[gets $chan line] < 0} { if {[eof $chan]} { close $chan }; return }
	puts $chan "[string reverse $line] [string length $line]"
}
set server [socket -server serve -myaddr 127.0.0.1 0]
set port [lindex [fconfigure $server -sockname] 2]
set client [socket 127.0.0.1 $port]
fconfigure $client -buffering line
set sorted [open "|sort -r > sorted" w]
fconfigure $sorted -buffering line
set turn 0
proc heard {} {
	global client digest turn out sorted
	gets $client line
	foreach c [split $line ""] { set digest [expr {($digest * 131 + [scan $c %c]) % 1000000007}] }
	puts $out "$turn $line $digest"
	puts $sorted "[expr {$digest % 977}] $turn"
	if {$turn % 15 == 0} { puts "turn $turn: $digest" }
}
fileevent $client readable heard
proc tick {} {
	global client turn done
	if {[incr turn] > 75} { set done 1; return }
	puts $client "turn $turn squared is [expr {$turn ** 9}]"
	after 90 tick
}
set out [open heard w]
after 90 tick
vwait done
close $client
close $server
close $out
close $sorted
puts "digest $digest"
TCL
tclsh events.tcl
sha256sum heard sorted
