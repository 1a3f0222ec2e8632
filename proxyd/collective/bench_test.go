// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package collective

import (
	"fmt"
	"io"
	"net"
	"testing"
	"time"
)

// BenchmarkAllReduce compares all-reduces among processes, all on this machine, with plain TCP
// connections that carry the same number of bytes at the same time: "ratio" is how much of their
// bandwidth the all-reduce reaches. On a single machine all processes share its cores with the kernel's copies, so
// the sums cost bandwidth that they would not cost between nodes.
func BenchmarkAllReduce(b *testing.B) {
	for _, c := range []struct{ processes, bytes int }{{2, 1 << 20}, {2, 64 << 20}, {4, 64 << 20}} {
		for _, typ := range []Type{Float32, BFloat16} {
			b.Run(fmt.Sprintf("%d processes/%s/%d KiB", c.processes, typ, c.bytes>>10), func(b *testing.B) {
				home := make([]int, c.processes)
				for r := range home {
					home[r] = r
				}
				w := newWorld(b, home, nil)
				ops := make([]Op, len(home))
				for r := range ops {
					ops[r] = Op{Kind: AllReduce, Type: typ, Count: c.bytes / typ.Size(), Send: make([]byte, c.bytes), Recv: make([]byte, c.bytes)}
				}
				pipes := newPipes(b, c.processes)
				// Each process sends 2·(n-1)/n of the vector, to n-1 peers.
				each := 2 * c.bytes / c.processes
				w.mustIssue(ops)
				pipes.copyBytes(each)
				var reduce, plain time.Duration
				b.ResetTimer()
				for range b.N {
					start := time.Now()
					w.mustIssue(ops)
					middle := time.Now()
					pipes.copyBytes(each)
					reduce += middle.Sub(start)
					plain += time.Since(middle)
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(float64(b.N)*float64(c.bytes)/reduce.Seconds()/1e9, "GB/s")
				b.ReportMetric(plain.Seconds()/reduce.Seconds(), "ratio")
			})
		}
	}
}

// pipes are plain connections between all of n processes.
type pipes struct {
	ends [][2]net.Conn
	sent []byte
}

func newPipes(b *testing.B, n int) *pipes {
	p := &pipes{sent: make([]byte, maxFrame)}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	for range n * (n - 1) / 2 {
		x, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		y, err := l.Accept()
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { x.Close(); y.Close() })
		p.ends = append(p.ends, [2]net.Conn{x, y})
	}
	return p
}

// copyBytes sends n bytes in both directions of every connection.
func (p *pipes) copyBytes(n int) {
	done := make(chan struct{})
	for _, c := range p.ends {
		for i := range 2 {
			go func() {
				for left := n; left > 0; left -= len(p.sent) {
					c[i].Write(p.sent[:min(left, len(p.sent))])
				}
				done <- struct{}{}
			}()
			go func() {
				b := make([]byte, maxFrame)
				for left := n; left > 0; {
					m, err := c[1-i].Read(b[:min(left, len(b))])
					if err != nil {
						break
					}
					left -= m
				}
				done <- struct{}{}
			}()
		}
	}
	for range 4 * len(p.ends) {
		<-done
	}
}

// BenchmarkSmall is the time of a small all-reduce, and of a single byte there and back on a plain connection.
func BenchmarkSmall(b *testing.B) {
	for _, processes := range []int{1, 2, 4, 9} {
		b.Run(fmt.Sprintf("%d processes", processes), func(b *testing.B) {
			home := make([]int, processes)
			for r := range home {
				home[r] = r
			}
			w := newWorld(b, home, nil)
			done := make(chan error, processes)
			recv := make([]byte, 8*processes)
			for b.Loop() {
				for r := range home {
					op := Op{Kind: AllReduce, Type: Float32, Count: 2, Send: make([]byte, 8), Recv: partAt(recv, r, 8)}
					if err := w.comms[r].Issue(r, []Op{op}, func(err error) { done <- err }); err != nil {
						b.Fatal(err)
					}
				}
				for range home {
					<-done
				}
			}
		})
	}
	b.Run("plain TCP, there and back", func(b *testing.B) {
		c := newPipes(b, 2).ends[0]
		go io.Copy(c[1], c[1])
		one := make([]byte, 1)
		for b.Loop() {
			c[0].Write(one)
			io.ReadFull(c[0], one)
		}
	})
}

// BenchmarkCombine is the arithmetic alone.
func BenchmarkCombine(b *testing.B) {
	for _, typ := range []Type{Float32, Float64, Float16, BFloat16, Float8E4M3, Int32} {
		b.Run(typ.String(), func(b *testing.B) {
			x, y := make([]byte, 64<<10), make([]byte, 64<<10)
			b.SetBytes(int64(len(x)))
			for b.Loop() {
				combiners[typ][Sum](x, x, y)
			}
		})
	}
}
