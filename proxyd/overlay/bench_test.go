// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"
)

// BenchmarkPaths compares the ways between two nodes: their own, a capsule's short path, its route
// and vxlan. Each round takes all four, in turn, for a while each, so that other load of the machine
// slows all of them alike. The ratios are those of the medians.
//
//	go test -run '^$' -bench Paths -benchtime 10x ./proxyd/overlay
func BenchmarkPaths(b *testing.B) {
	short, routed, tunnel := newLab(b, Config{}), newLab(b, Config{ShortPath: ShortPathOff}), newLab(b, Config{Mode: ModeVXLAN})
	var ends [4][2]*os.File
	var to [4]netip.Addr
	for i, l := range []*lab{short, routed, tunnel} {
		n1, n2 := l.addNode("n1", "10.1.0.1/24", ""), l.addNode("n2", "10.1.0.2/24", "")
		a0, a1 := n1.addCapsule("812.0", "100.64.0.8"), n2.addCapsule("812.1", "100.64.0.9")
		introduceAll(b, "812", a0, a1)
		ends[i+1], to[i+1] = [2]*os.File{a0.ns, a1.ns}, a1.addr
		if i == 0 {
			ends[0], to[0] = [2]*os.File{n1.ns, n2.ns}, n2.addr
		}
	}
	names := []string{"host", "short", "routed", "vxlan"}
	const slice = 500 * time.Millisecond
	for what, measure := range map[string]func(c, d net.Conn, stop time.Time) (int, error){"GB/s": floodConn, "trips/s": pingPong} {
		b.Run(map[string]string{"GB/s": "stream", "trips/s": "pingpong"}[what], func(b *testing.B) {
			var got [4][]float64
			for b.Loop() {
				for i := range names {
					c, d := connectFiles(b, ends[i], to[i])
					began := time.Now()
					n, err := measure(c, d, began.Add(slice))
					failOn(b, err)
					got[i] = append(got[i], float64(n)/time.Since(began).Seconds())
					c.Close()
					d.Close()
				}
			}
			for i := range names {
				slices.Sort(got[i])
				median := got[i][len(got[i])/2]
				unit := what
				if what == "GB/s" {
					median /= 1e9
				}
				b.ReportMetric(median, names[i]+"-"+unit)
				if i > 0 {
					b.ReportMetric(got[i][len(got[i])/2]/got[0][len(got[0])/2], names[i]+"/host")
				}
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

func connectFiles(b *testing.B, ends [2]*os.File, to netip.Addr) (c, d net.Conn) {
	b.Helper()
	var l net.Listener
	failOn(b, withinNamespace(ends[1], func() (err error) {
		l, err = net.Listen("tcp4", "0.0.0.0:7")
		return err
	}))
	defer l.Close()
	c, err := dialIn(ends[0], to, patience)
	failOn(b, err)
	d, err = l.Accept()
	failOn(b, err)
	return c, d
}

// floodConn sends as much as it can from c to d.
func floodConn(c, d net.Conn, stop time.Time) (int, error) {
	sent := make(chan error, 1)
	go func() {
		buf := make([]byte, 128<<10)
		var err error
		for err == nil && time.Now().Before(stop) {
			_, err = c.Write(buf)
		}
		sent <- errors.Join(err, c.Close())
	}()
	n, buf := 0, make([]byte, 128<<10)
	for {
		k, err := d.Read(buf)
		n += k
		if errors.Is(err, io.EOF) {
			return n, <-sent
		}
		if err != nil {
			return n, err
		}
	}
}

// pingPong sends a byte to and fro.
func pingPong(c, d net.Conn, stop time.Time) (int, error) {
	go func() {
		_, _ = io.CopyBuffer(struct{ io.Writer }{d}, struct{ io.Reader }{d}, make([]byte, 1))
	}()
	n, buf := 0, make([]byte, 1)
	for ; time.Now().Before(stop); n++ {
		if _, err := c.Write(buf); err != nil {
			return n, err
		}
		if _, err := io.ReadFull(c, buf); err != nil {
			return n, err
		}
	}
	return n, nil
}

// BenchmarkAttach measures the time that Attach adds to a job's start.
func BenchmarkAttach(b *testing.B) {
	l := newLab(b, Config{})
	n := l.addNode("n1", "10.1.0.1/24", "")
	for b.Loop() {
		b.StopTimer()
		c := n.startBare("812.0", "100.64.0.8")
		b.StartTimer()
		failOn(b, n.Attach(b.Context(), c.pid, c.name, c.addr))
		b.StopTimer()
		failOn(b, n.Detach(b.Context(), c.name))
		c.kill()
		b.StartTimer()
	}
}

func BenchmarkLock(b *testing.B) {
	l := newLab(b, Config{})
	c := l.addNode("n1", "10.1.0.1/24", "").addCapsule("812.0", "100.64.0.8")
	for b.Loop() {
		failOn(b, errors.Join(Lock(c.pid), Unlock(c.pid)))
	}
}
