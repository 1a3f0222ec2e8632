// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"bytes"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/wire"
)

// serveOne gives a ring to the next process that connects to a socket, and serves the ring until the process
// ends.
func serveOne(listener *net.UnixListener, reach func(*wire.Newcomer) wire.Process, handle func(*wire.Letter)) error {
	conn, err := listener.AcceptUnix()
	if err != nil {
		return err
	}
	n, err := wire.Receive(conn)
	if err != nil {
		return err
	}
	ring, err := wire.Create(wire.Options{})
	if err != nil {
		return err
	}
	defer ring.Close()
	process := reach(n)
	if err := n.Welcome(ring, process != 0); err != nil {
		return err
	}
	// The process keeps the other end of the pipe open until it ends.
	exec := n.Exec
	n.Exec = nil
	n.Close()
	go func() {
		var b [1]byte
		_, _ = exec.Read(b[:])
		exec.Close()
		ring.Finish()
	}()
	var bad error
	var room []byte
	err = ring.Serve(func(m *wire.Message) {
		var l *wire.Letter
		if l, room, err = wire.Open(m, process, room); err != nil {
			bad = err
			return
		}
		handle(l)
	})
	if err == nil {
		err = bad
	}
	return err
}

func listenOnSocket(t *testing.T) (*net.UnixListener, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "device")
	listener, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener, path
}

// countsWork tells whether the ring counts a message. A counted call's message begins with the array of its counts;
// with an empty array the message is not counted.
func countsWork(info Info, args []byte) bool {
	return info.Counted && (&decoder{rest: args}).readU64() != 0
}

// TestOverTheRing is TestRoundTrip over the real transport, the ring.
func TestOverTheRing(t *testing.T) {
	listener, path := listenOnSocket(t)
	x := &echo{random: rand.New(rand.NewPCG(1, 2)), fails: true}
	left := false
	served := make(chan error, 1)
	go func() {
		served <- serveOne(listener, func(*wire.Newcomer) wire.Process { return 0 }, func(l *wire.Letter) {
			if l.Op == wire.OpExit {
				left = true
				return
			}
			out, r, err := Serve(x, Call{Thread: l.Thread}, l.Op, l.Args, nil)
			info, _ := Look(l.Op)
			if err != nil || info.Posted != l.Posted || countsWork(info, l.Args) != l.Counted || l.Context != 77 {
				t.Errorf("%s: %v, posted %v, counted %v, context %d", info.Symbol, err, l.Posted, l.Counted, l.Context)
			}
			if !l.Posted {
				if err := l.Answer(int32(r), out); err != nil {
					t.Errorf("%s: the answer was not sent: %v", info.Symbol, err)
				}
			}
		})
	}()
	var out, problem bytes.Buffer
	cmd := exec.Command(sanitized.compiledFile(t, "roundtrip-ring"), "calls", "11", "4")
	cmd.Env = append(os.Environ(), noLeaks, wire.DeviceEnv+"="+path)
	cmd.Stdout, cmd.Stderr = &out, &problem
	if err := cmd.Run(); err != nil {
		listener.Close()
		t.Errorf("the program over the ring: %v: %s", err, problem.String())
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != len(x.lines) || len(lines) < 4*300 {
		t.Fatalf("%d calls were made, %d arrived", len(lines), len(x.lines))
	}
	for i := range lines {
		if lines[i] != x.lines[i] {
			t.Fatalf("call %d:\nC  %s\nGo %s", i, lines[i], x.lines[i])
		}
	}
	if !left {
		t.Error("the process ended, and the ring did not say so")
	}
}
