// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"
)

// BenchmarkRing is the cost of the ring for a process: testdata/bench.c measures, and names the figures. Other work on
// the machine makes the median worse; the best of the rounds is the cost of the code itself.
func BenchmarkRing(b *testing.B) {
	for _, c := range []struct {
		what, unit    string
		bytes, rounds int
	}{
		{"post", "ns", 0, 200},
		{"post", "ns", 88, 200},
		{"post", "ns", 200, 200},
		{"call", "ns", 16, 50},
		{"call", "ns", 1024, 50},
		{"sleep", "ns", 16, 200},
		{"to", "GB/s", 256 << 10, 20},
		{"from", "GB/s", 256 << 10, 20},
		{"read", "GB/s", 4 << 20, 20},
		{"write", "GB/s", 4 << 20, 20},
	} {
		b.Run(fmt.Sprintf("%s-%d", c.what, c.bytes), func(b *testing.B) {
			var best, median, here float64
			for b.Loop() {
				f := measureBench(b, c.what, c.bytes, c.rounds)
				better := f[0] > best
				if c.unit == "ns" {
					better = f[0] < best
				}
				if better || best == 0 {
					best, median = f[0], f[1]
				}
				here = max(here, f[2])
			}
			b.ReportMetric(best, c.unit+"-best")
			b.ReportMetric(median, c.unit+"-median")
			if c.unit == "GB/s" {
				b.ReportMetric(100*best/here, "%-of-memcpy")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// measureBench runs testdata/bench.c once: the best, the median, and the time of memcpy in between.
func measureBench(b *testing.B, what string, bytes, rounds int) (figures [3]float64) {
	b.Helper()
	there := make([]byte, 64<<20)
	var at int
	var p *process
	ready := make(chan struct{})
	p = startProgram(b, func(m *Message) {
		switch m.Op {
		case 2:
			at = (at + m.Bulk(there[at:], 0)) % len(there)
		case 3:
			n := m.Call().Room()
			m.Call().Answer(0, there[at:at+n])
			at = (at + n) % len(there)
		case 4, 5:
			<-ready
			addr, n := binary.LittleEndian.Uint64(m.Args), int(binary.LittleEndian.Uint64(m.Args[8:]))
			move := Process(p.cmd.Process.Pid).Read
			if m.Op == 5 {
				move = Process(p.cmd.Process.Pid).Write
			}
			if err := move(there[at:at+n], addr); err != nil {
				b.Error(err)
			}
			m.Call().Answer(0)
			at = (at + n) % len(there)
		default:
			if m.Call() != nil {
				m.Call().Answer(0, m.Args)
			}
		}
	}, buildProgram(b, "bench", "plain"), what, bytes, rounds)
	close(ready)
	p.mustEndWell(b)
	out, err := os.ReadFile(p.out.Name())
	if err != nil {
		b.Fatal(err)
	}
	if _, err := fmt.Sscanf(string(out), "best %f\nmedian %f\nmemcpy %f", &figures[0], &figures[1], &figures[2]); err != nil {
		b.Fatal(err, string(out))
	}
	return figures
}

// BenchmarkIdle is the cost of eight rings without messages: processor time per second, and by how much the worst of
// many short sleeps of another goroutine is late.
func BenchmarkIdle(b *testing.B) {
	for range 8 {
		r, err := Create(Options{})
		if err != nil {
			b.Fatal(err)
		}
		defer r.Close()
		go r.Serve(func(*Message) {})
	}
	time.Sleep(100 * time.Millisecond) // they fall asleep
	var late time.Duration
	before, since := processorTime(b), time.Now()
	for b.Loop() {
		time.Sleep(50 * time.Millisecond)
	}
	used := processorTime(b) - before
	seconds := time.Since(since).Seconds()
	for range 200 {
		at := time.Now()
		time.Sleep(time.Millisecond)
		late = max(late, time.Since(at)-time.Millisecond)
	}
	b.ReportMetric(float64(used.Microseconds())/seconds, "µs/s")
	b.ReportMetric(float64(late.Microseconds()), "µs-late")
	b.ReportMetric(0, "ns/op")
}

func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
