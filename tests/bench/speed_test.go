//go:build bench

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"testing"
)

var aimSpeed = atMost(1.01, "≤ 1.01")

// works are the verbs of the agent that are timed.
var works = []struct {
	verb, what string
	aim        bound
}{
	{"cpu", "a loop of arithmetic", aimSpeed},
	{"memory", "mmap, touch and munmap of 4 MiB", aimSpeed},
	{"getppid", "getppid", aimSpeed},
	{"clock", "clock_gettime", noAim},
	{"readwrite", "pwrite and pread of 4 KiB", aimSpeed},
	{"open", "open to read, close", aimSpeed},
	{"openwrite", "open to write, close", aimSpeed},
	{"exec", "fork, exec of /bin/true, wait", noAim},
}

// slice is the shortest time of a turn, in nanoseconds of a processor: much longer than a process's start, shorter than
// disturbances by other work of the machine.
const slice = 40e6

// measureSpeed measures how much slower a program's work is in a capsule.
func measureSpeed(t *testing.T, c *cluster) (all []figure) {
	plain, ours := c.startBoth(t, "speed", "-w n1", plainAgent)
	for _, w := range works {
		n := 1
		for plain.askNumbers(t, fmt.Sprint(w.verb, " ", n), 2)[1] < slice {
			n *= 2
		}
		order := fmt.Sprint(w.verb, " ", n)
		ours.askNumbers(t, order, 2) // the caches are warm
		var wall, cpu turns
		for i := range *rounds {
			var p, o []float64
			if i%2 == 0 {
				p = plain.askNumbers(t, order, 2)
				o = ours.askNumbers(t, order, 2)
			} else {
				o = ours.askNumbers(t, order, 2)
				p = plain.askNumbers(t, order, 2)
			}
			wall.add(p[0]/1e9, o[0]/1e9)
			cpu.add(p[1]/1e9, o[1]/1e9)
		}
		t.Log(order)
		all = append(all,
			cpu.ratio(w.what+", processor time", formatMilliseconds, w.aim),
			wall.ratio(w.what+", by the clock", formatMilliseconds, w.aim))
	}
	return all
}
