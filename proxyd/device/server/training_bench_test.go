// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/wire"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu"
)

// saying is a single message of a program, with the answer.
type saying struct {
	op      uint32
	call    dispatch.Call
	posted  bool
	in, out []byte
	result  dispatch.Result
}

// direct is a process that makes its calls in the server's own process: without shim, ring or another process. Its ring
// has no reader: the ring only takes the server's messages.
type direct struct {
	*process
}

// makeCall makes a single call, and returns when the call is over, also a call that waits.
func (d direct) makeCall(say *saying) (dispatch.Result, []byte, error) {
	out, r, err := dispatch.Serve(d, say.call, say.op, say.in, d.scratch[:0])
	if info, known := dispatch.Look(say.op); known && say.posted {
		d.handlePostedResult(&say.call, info.Symbol, r, err)
	}
	if cap(out) > cap(d.scratch) && cap(out) <= maxScratch {
		d.scratch = out
	}
	d.CheckFault(say.call.Context)
	return r, out, err
}

// recordProgram answers a program over its ring until the program ends, and returns all of its messages.
func (d direct) recordProgram(b *testing.B, ring *wire.Ring, of wire.Process) []saying {
	b.Helper()
	var all []saying
	err := ring.Serve(func(m *wire.Message) {
		l, _, err := wire.Open(m, of, nil)
		if err != nil {
			b.Errorf("output of a program: %v", err)
			ring.Close()
			return
		}
		if l.Op == wire.OpExit {
			return
		}
		say := saying{op: l.Op, posted: l.Posted, in: bytes.Clone(l.Args), call: dispatch.Call{
			Thread: l.Thread, Context: dispatch.Context(l.Context), PerThread: l.Op&dispatch.PerThread != 0,
		}}
		if !l.Posted {
			say.call.Waits = func() {} // a call may wait: no other call is to go on meanwhile
		}
		r, out, err := d.makeCall(&say)
		if err == nil && !l.Posted {
			err = l.Answer(int32(r), out)
		}
		if err != nil {
			b.Errorf("a call of the program: %v", err)
			ring.Close()
			return
		}
		say.result, say.out = r, bytes.Clone(out)
		all = append(all, say)
	})
	if err != nil {
		b.Error(err)
	}
	return all
}

// repeatCalls makes a program's calls again. Each has to have the same result as for the program.
func (d direct) repeatCalls(b *testing.B, all []saying) {
	b.Helper()
	for i := range all {
		r, out, err := d.makeCall(&all[i])
		want := all[i].out
		if all[i].op == ops["module_load"] { // the answer ends with the time of the load
			out, want = out[:max(len(out)-4, 0)], want[:max(len(want)-4, 0)]
		}
		if err != nil || r != all[i].result || !bytes.Equal(out, want) {
			info, _ := dispatch.Look(all[i].op)
			b.Fatalf("call %d, %s: %d, %d bytes, %v; for the program %d, %d bytes", i, info.Symbol, r, len(out), err, all[i].result, len(want))
		}
	}
}

// trainer is a program that trains, and where the program runs.
type trainer struct {
	b    *testing.B
	libs string
	path string
	args []string
	want string // the program's output
	all  []saying
}

// cost is the cost of a run: by the clock, and of processors, of this process and of the program.
type cost struct {
	clock, ours, theirs time.Duration
}

// costSince returns the first two from a moment on, which is a cost itself.
func (c cost) costSince() cost {
	n := currentCost()
	return cost{clock: n.clock - c.clock, ours: n.ours - c.ours}
}

var epoch = time.Now()

func currentCost() cost {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u) // the call cannot fail
	return cost{clock: time.Since(epoch), ours: time.Duration(u.Utime.Nano() + u.Stime.Nano())}
}

// buildWorkloads makes the programs and the shim, the latter by all the names that programs know it by.
func buildWorkloads(b *testing.B) (dir string) {
	b.Helper()
	for _, tool := range []string{"cc", "make"} {
		if _, err := exec.LookPath(tool); err != nil {
			b.Skip("SKIP: ", err)
		}
	}
	dir = b.TempDir()
	for _, part := range []string{"libsingshim", "tests/workloads"} {
		c := exec.Command("make", "-s", "-C", filepath.Join("../../..", part), "O="+dir)
		if out, err := c.CombinedOutput(); err != nil {
			b.Fatalf("%s: %v\n%s", part, err, out)
		}
	}
	for _, name := range []string{"libcuda.so.1", "libnccl.so.2", "libnvidia-ml.so.1"} {
		if err := os.Symlink("libsingshim-device.so", filepath.Join(dir, name)); err != nil {
			b.Fatal(err)
		}
	}
	return dir
}

// newServer makes a server with a device of its own, the same each time.
func (r *trainer) newServer() *Server {
	r.b.Helper()
	devices, err := softgpu.New(softgpu.Config{Seed: "training", Memory: []uint64{1 << 30}}) // on all cores
	if err != nil {
		r.b.Fatal(err)
	}
	return New(Config{Backend: devices, Log: slog.New(slog.DiscardHandler)})
}

func (r *trainer) closeServer(s *Server) {
	r.b.Helper()
	if err := s.Close(); err != nil {
		r.b.Error(err)
	}
}

func (r *trainer) openDirect(s *Server) direct {
	r.b.Helper()
	ring, err := wire.Create(wire.Options{Spin: -1}) // no process is at its other end
	if err != nil {
		r.b.Fatal(err)
	}
	p, err := s.makeProcess(ring, &own{ended: make(chan string)}, visibility{}, func() error { return nil })
	if err != nil {
		r.b.Fatal(err)
	}
	return direct{p}
}

// runProgram runs the program; connected is called with its connection. The result is the cost until the end of the program. The program's
// start is in its processor time, and not in the other two.
func (r *trainer) runProgram(connected func(conn *net.UnixConn, pid int, ended <-chan struct{})) cost {
	r.b.Helper()
	socket := filepath.Join(r.libs, "socket")
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: socket, Net: "unixpacket"})
	if err != nil {
		r.b.Fatal(err)
	}
	defer l.Close()
	var said bytes.Buffer
	c := exec.Command(r.path, r.args...)
	c.Env = append(os.Environ(), "LD_PRELOAD="+filepath.Join(r.libs, "libsingshim-device.so"), "LD_LIBRARY_PATH="+r.libs, wire.DeviceEnv+"="+socket)
	c.Stdout, c.Stderr = &said, &said
	if err := c.Start(); err != nil {
		r.b.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err = c.Wait()
		l.Close() // if the program has not connected
	}()
	conn, no := l.AcceptUnix()
	began := currentCost()
	if no == nil {
		connected(conn, c.Process.Pid, ended)
	}
	<-ended
	took := began.costSince()
	if no != nil || err != nil {
		r.b.Fatalf("%s: %v, %v\n%s", r.path, no, err, &said)
	}
	if r.want == "" {
		r.want = said.String()
	}
	if said.String() != r.want {
		r.b.Fatalf("the training printed\n%s\nand not\n%s", &said, r.want)
	}
	took.theirs = c.ProcessState.UserTime() + c.ProcessState.SystemTime()
	return took
}

// recordCalls runs the program once and keeps its calls. The program is told that its memory cannot be read: the calls have all their bytes with them.
func (r *trainer) recordCalls() {
	r.b.Helper()
	s := r.newServer()
	defer r.closeServer(s)
	d := r.openDirect(s)
	r.runProgram(func(conn *net.UnixConn, pid int, ended <-chan struct{}) {
		defer conn.Close()
		n, err := wire.Receive(conn)
		if err != nil {
			r.b.Error(err)
			return
		}
		defer n.Exec.Close()
		ring, err := wire.Create(wire.Options{})
		if err == nil {
			err = n.Welcome(ring, false)
		}
		if err != nil {
			r.b.Error(err)
			return
		}
		go func() {
			<-ended // the program may fail, and send no message
			ring.Finish()
		}()
		r.all = d.recordProgram(r.b, ring, wire.Process(pid))
	})
}

// costShipped is the cost of the program through shim and ring.
func (r *trainer) costShipped() cost {
	r.b.Helper()
	s := r.newServer()
	defer r.closeServer(s)
	return r.runProgram(func(conn *net.UnixConn, _ int, _ <-chan struct{}) {
		if err := s.attachProgram(conn); err != nil {
			r.b.Error(err)
		}
	})
}

// costRepeated is the cost of the same calls in the server's own process.
func (r *trainer) costRepeated() cost {
	r.b.Helper()
	s := r.newServer()
	defer r.closeServer(s)
	d := r.openDirect(s)
	began := currentCost()
	d.repeatCalls(r.b, r.all)
	return began.costSince()
}

// BenchmarkTraining compares a program that trains through shim and ring with its very calls made in the device
// server's own process, in turns, A B B A: the ratio by the clock is the median of pairs, with their quartiles, and so
// is that of processor time. The program's own work beside its calls, making its data, hashing its parameters and
// ending, is in the one and not in the other; program-ms is its processor time, the shim's and its start included.
//
//	go test -run '^$' -bench Training -benchtime 1x -count 3 ./proxyd/device/server
func BenchmarkTraining(b *testing.B) {
	dir := buildWorkloads(b)
	for _, tc := range []struct {
		name  string
		steps int
	}{{"mlp", 60}, {"gpt", 8}} {
		b.Run(tc.name, func(b *testing.B) {
			r := &trainer{b: b, libs: dir, path: filepath.Join(dir, tc.name), args: []string{"--steps", strconv.Itoa(tc.steps)}}
			r.recordCalls()
			for b.Loop() {
				r.compareCosts()
			}
			b.ReportMetric(float64(len(r.all)), "calls")
			b.ReportMetric(float64(tc.steps), "steps")
			b.ReportMetric(0, "ns/op") // a mean over all the pairs, without a meaning
		})
	}
}

// compareCosts takes the turns.
func (r *trainer) compareCosts() {
	const pairs = 11
	var clock, processor, direct, shipped, program []float64
	for i := range pairs {
		var a, b cost
		if i%2 == 0 {
			a = r.costShipped()
			b = r.costRepeated()
		} else {
			b = r.costRepeated()
			a = r.costShipped()
		}
		clock = append(clock, a.clock.Seconds()/b.clock.Seconds())
		processor = append(processor, (a.ours+a.theirs).Seconds()/b.ours.Seconds())
		direct = append(direct, b.clock.Seconds()*1e3)
		shipped = append(shipped, a.clock.Seconds()*1e3)
		program = append(program, a.theirs.Seconds()*1e3)
	}
	for _, all := range [][]float64{clock, processor, direct, shipped, program} {
		slices.Sort(all)
	}
	r.b.ReportMetric(clock[pairs/2], "shipped/direct")
	r.b.ReportMetric(clock[pairs/4], "from")
	r.b.ReportMetric(clock[pairs-1-pairs/4], "to")
	r.b.ReportMetric(processor[pairs/2], "of-processors")
	r.b.ReportMetric(direct[pairs/2], "direct-ms")
	r.b.ReportMetric(shipped[pairs/2], "shipped-ms")
	r.b.ReportMetric(program[pairs/2], "program-ms")
}
