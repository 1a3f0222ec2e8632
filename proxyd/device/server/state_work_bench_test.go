// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkSaveQueued saves a process with so many launches in its stream, and has another server go on with them: "stopped" is how long
// the program stands until all is written, "queued-again" how long Resume takes.
func BenchmarkSaveQueued(b *testing.B) {
	for _, launches := range []int{0, 100, 10000, 60000} {
		b.Run(fmt.Sprint(launches), func(b *testing.B) {
			var stopped, again time.Duration
			for b.Loop() {
				b.StopTimer()
				s := serverOf(b, "test", nil, testMemory)
				_, cs := attachProcess(b, s, 1)
				c := cs[0]
				c.beginContext(ctxA, 0)
				f := c.callForNumber("cuModuleGetFunction", c.loadModule(mixing), "mix")
				at := c.alloc(4 * mixedWords)
				for i := range launches {
					c.launchMix(f, 0, at, uint32(i), 20000)
				}
				c.want(map[bool]int32{true: ok, false: notReady}[launches == 0], "cuStreamQuery", uint64(0))
				folder := Folder(b.TempDir())
				b.StartTimer()
				began := time.Now()
				r := saveJob(b, s, folder, SaveOptions{})
				stopped += time.Since(began)
				began = time.Now()
				next := serverOf(b, "other", nil, testMemory)
				replaceServer(b, s, r, folder, next)
				again += time.Since(began)
				b.StopTimer()
				for _, p := range next.allProcesses() {
					p.endProcess("the benchmark is over")
				}
				b.StartTimer()
			}
			b.ReportMetric(float64(stopped.Microseconds())/1000/float64(b.N), "ms/stopped")
			b.ReportMetric(float64(again.Microseconds())/1000/float64(b.N), "ms/queued-again")
		})
	}
}
