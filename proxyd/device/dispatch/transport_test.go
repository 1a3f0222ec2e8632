// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"bytes"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/wire"
)

// opEcho is a call of libsingshim/shim/device/test/trial.c. The answer is the message, backwards.
const opEcho = 0x1234

// desk is a device server for trial.c: every call succeeds. It serves each process that connects.
type desk struct {
	listener *net.UnixListener
	reaches  bool
	react    func(*wire.Ring, *wire.Letter) // is called with each letter before the desk handles the letter

	wait    sync.WaitGroup
	mu      sync.Mutex
	letters []string                // received letters, of all processes
	each    map[*wire.Ring][]string // received letters, by process
	counts  map[uint64]uint64
	wrong   error
}

func newDesk(t *testing.T) (*desk, string) {
	listener, path := listenOnSocket(t)
	return &desk{listener: listener, reaches: true, react: func(*wire.Ring, *wire.Letter) {}, each: map[*wire.Ring][]string{}}, path
}

// serveAll serves until the listener is closed and all processes have ended.
func (d *desk) serveAll() {
	d.wait.Go(func() {
		for {
			conn, err := d.listener.AcceptUnix()
			if err != nil {
				return
			}
			d.wait.Go(func() {
				if err := d.serveProcess(conn); err != nil {
					d.mu.Lock()
					defer d.mu.Unlock()
					d.wrong = err
				}
			})
		}
	})
}

func (d *desk) serveProcess(conn *net.UnixConn) error {
	defer conn.Close()
	process, err := peerProcess(conn)
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
	if !n.Reaches(process) {
		return fmt.Errorf("process %d is not reached", process)
	}
	if err := n.Welcome(ring, d.reaches); err != nil {
		return err
	}
	pipe := n.Exec
	n.Exec = nil
	n.Close()
	d.wait.Go(func() {
		var b [1]byte
		_, _ = pipe.Read(b[:])
		pipe.Close()
		ring.Finish()
	})
	var room []byte
	var bad error
	err = ring.Serve(func(m *wire.Message) {
		l, more, err := wire.Open(m, process, room)
		room = more
		if err == nil {
			err = d.handleCall(ring, l)
		}
		if err != nil && bad == nil {
			bad = err
			go ring.Close() // ends the wait of the processes for answers
		}
	})
	if err == nil {
		err = bad
	}
	return err
}

func peerProcess(conn *net.UnixConn) (wire.Process, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) { cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return 0, err
	}
	if credErr != nil {
		return 0, credErr
	}
	return wire.Process(cred.Pid), nil
}

func (d *desk) handleCall(ring *wire.Ring, l *wire.Letter) error {
	d.handleNote(ring, l)
	d.react(ring, l)
	if l.Posted {
		return nil
	}
	info, known := Look(l.Op)
	var answer []byte
	switch {
	case l.Op == opEcho && l.Room() < len(l.Args): // too long for a post: wants no bytes back
	case l.Op == opEcho:
		answer = slices.Clone(l.Args)
		slices.Reverse(answer)
	case !known:
		return fmt.Errorf("operation %#x", l.Op)
	case info.Symbol == "attach": // 2 devices, version 13000
		answer = []byte{2, 0, 0, 0, 0xc8, 0x32, 0, 0}
	case info.Symbol == "device_attributes":
		n := little.Uint32(l.Args[4:])
		answer = little.AppendUint64(nil, uint64(n))
		for i := range n {
			answer = little.AppendUint32(answer, i)
		}
	case strings.HasSuffix(info.Symbol, "Count") || strings.HasSuffix(info.Symbol, "Version") || strings.HasSuffix(info.Symbol, "Count_v2"):
		answer = []byte{2, 0, 0, 0}
	}
	return l.Answer(0, answer)
}

func (d *desk) handleNote(ring *wire.Ring, l *wire.Letter) {
	d.mu.Lock()
	defer d.mu.Unlock()
	name := fmt.Sprintf("%#x", l.Op)
	if info, ok := Look(l.Op); ok {
		name = info.Symbol
	}
	switch l.Op {
	case wire.OpExit:
		name = "exit"
	case wire.OpMissed:
		name = "missed " + string(l.Args)
	case opEcho:
		name = fmt.Sprintf("echo %d", len(l.Args))
	}
	if l.Context != 0 {
		name += fmt.Sprintf(" in %#x", l.Context)
	}
	d.letters = append(d.letters, name)
	d.each[ring] = append(d.each[ring], name)
	counts, err := ring.Counts()
	if err == nil {
		d.counts = maps.Clone(counts)
	}
}

// runTrial runs trial.c on the desk and returns the program's standard output and standard error.
func (d *desk) runTrial(t *testing.T, path, what string) (out, said string) {
	t.Helper()
	d.serveAll()
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(sanitized.compiledFile(t, "trial"), what)
	cmd.Env = append(os.Environ(), noLeaks, wire.DeviceEnv+"="+path)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Errorf("trial: %v\n%s%s", err, stdout.String(), stderr.String())
	}
	d.listener.Close()
	d.wait.Wait()
	if d.wrong != nil {
		t.Errorf("the desk met with an error: %v", d.wrong)
	}
	return stdout.String(), stderr.String()
}

func sameText(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestTransportLength(t *testing.T) {
	for _, reaches := range []bool{true, false} {
		d, path := newDesk(t)
		d.reaches = reaches
		out, said := d.runTrial(t, path, "length")
		var want strings.Builder
		for _, n := range []int{0, 1, 65527, 65528, 65529, 400000, 524000, 524032, 600000, 3 << 20} {
			if !reaches && n > 524032 {
				fmt.Fprintf(&want, "echo %d: -1, 0 bytes, 0 wrong\npost %d: -1\n", n, n)
				continue
			}
			fmt.Fprintf(&want, "echo %d: 0, %d bytes, 0 wrong\n", n, n)
			if n > 0 {
				fmt.Fprintf(&want, "post %d: 0\n", n)
			}
		}
		sameText(t, out, want.String())
		if reaches != (said == "") || !reaches && strings.Count(said, "ptrace_scope") != 1 {
			t.Errorf("the program's standard error = %q", said)
		}
	}
}

func TestTransportCached(t *testing.T) {
	d, path := newDesk(t)
	out, _ := d.runTrial(t, path, "cached")
	sameText(t, out, "0 3 cba\n0 3 cba\n0 3 cba\n0 dba\n0\n")
	if d.letters[2] != "echo 3 in 0x10000000001" || d.letters[3] != "echo 3 in 0x10000000001" || d.letters[4] != "echo 3" || d.letters[5] != "echo 15" {
		t.Errorf("letters = %q, want two echoes in the context, then two without", d.letters[:6])
	}
}

func TestTransportFork(t *testing.T) {
	d, path := newDesk(t)
	out, _ := d.runTrial(t, path, "forked")
	const child = ": cuInit 3 get 3 pop 3 set 3 device 3 retain 3 attribute 3 count 3 call 3 post 3 nccl 5 nvml 1\n"
	sameText(t, out, "fork"+child+"clone"+child+"parent: 0, 0\necho 5: 0, 5 bytes, 0 wrong\npost 5: 0\n")
}

func TestTransportForkEarly(t *testing.T) {
	d, path := newDesk(t)
	out, _ := d.runTrial(t, path, "forked-early")
	sameText(t, out, "nvml 0\nchild: attached 1\necho 3: 0, 3 bytes, 0 wrong\npost 3: 0\necho 4: 0, 4 bytes, 0 wrong\npost 4: 0\n")
	// Letters of the same ring have an order; letters of different rings do not: the last letter that the child
	// posted may be handled after the parent's next call.
	got := slices.SortedFunc(maps.Values(d.each), slices.Compare)
	want := [][]string{
		{"attach", "cuCtxCreate_v2", "echo 3 in 0x10000000001", "echo 3 in 0x10000000001", "exit in 0x10000000001"},
		{"nvmlDeviceGetCount_v2", "attach", "cuCtxCreate_v2", "echo 4 in 0x10000000001", "echo 4 in 0x10000000001", "exit in 0x10000000001"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("letters by process = %q", got)
	}
}

func TestTransportExec(t *testing.T) {
	d, path := newDesk(t)
	out, _ := d.runTrial(t, path, "exec")
	sameText(t, out, "echo 1: 0, 1 bytes, 0 wrong\npost 1: 0\n"+
		"echo 6: 3, 0 bytes, 0 wrong\npost 6: 3\necho 7: 0, 7 bytes, 0 wrong\npost 7: 0\n")
}

func TestTransportThreads(t *testing.T) {
	d, path := newDesk(t)
	out, _ := d.runTrial(t, path, "threads")
	sameText(t, out, "")
	attached := 0
	for _, l := range d.letters {
		if l == "attach" {
			attached++
		}
	}
	if attached != 1 || len(d.letters) != 1+16+1 {
		t.Errorf("the process attached %d times, with letters %q", attached, d.letters)
	}
}

func TestTransportNothing(t *testing.T) {
	d, _ := newDesk(t)
	out, said := d.runTrial(t, "", "nothing")
	sameText(t, out, "cuInit 100 100 version 100 nccl 1 nvml 9\n")
	sameText(t, said, "")
	d, _ = newDesk(t)
	out, said = d.runTrial(t, "/nonexistent/device", "nothing")
	sameText(t, out, "cuInit 802 802 version 802 nccl 2 nvml 9\n")
	if !strings.HasPrefix(said, "singularity: the device server /nonexistent/device: No such file or directory; CUDA has no devices\n") {
		t.Errorf("the program's standard error = %q", said)
	}
}

func TestTransportFault(t *testing.T) {
	d, path := newDesk(t)
	d.react = func(r *wire.Ring, l *wire.Letter) {
		if l.Op == opEcho {
			r.SetFault(700)
		}
	}
	out, _ := d.runTrial(t, path, "fault")
	sameText(t, out, "echo 2: 0, 2 bytes, 0 wrong\npost 2: 700\ncall 700 post 700 version 700 current 0 nccl 1 nvml 0\n")
}

func TestTransportClosed(t *testing.T) {
	d, path := newDesk(t)
	d.react = func(r *wire.Ring, l *wire.Letter) {
		if l.Op == opEcho {
			go r.Close()
		}
	}
	d.serveAll()
	var out bytes.Buffer
	cmd := exec.Command(sanitized.compiledFile(t, "trial"), "closed")
	cmd.Env = append(os.Environ(), noLeaks, wire.DeviceEnv+"="+path)
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		t.Error(err)
	}
	d.listener.Close()
	d.wait.Wait()
	if !strings.HasSuffix(out.String(), "call 999 memset 999\n") {
		t.Errorf("the program printed %s", out.String())
	}
}

func TestTransportCounts(t *testing.T) {
	d, path := newDesk(t)
	d.runTrial(t, path, "counted")
	want := map[wire.Count]uint64{
		{Comm: 5}:                                3,
		{Comm: 5, Kind: wire.CountSend, Peer: 3}: 2,
		{Comm: 5, Kind: wire.CountRecv, Peer: 3}: 1,
	}
	got := map[wire.Count]uint64{}
	for key, n := range d.counts {
		got[wire.ParseCount(key)] = n
	}
	if !maps.Equal(got, want) {
		t.Errorf("counts of the ring = %+v", got)
	}
}

func TestTransportMissed(t *testing.T) {
	d, path := newDesk(t)
	const text = "cuMipmappedArrayCreate: of textures there are objects of arrays and linear memory: no references, mipmaps, cubes or sparse arrays"
	out, said := d.runTrial(t, path, "missed")
	sameText(t, out, "801\n801\n")
	sameText(t, said, "singularity: "+strings.Replace(text, ":", " is not supported:", 1)+"\n")
	if n := slices.Index(d.letters, "missed "+text+" in 0x10000000001"); n != 2 {
		t.Errorf("letters = %q, want the missed call as the third", d.letters)
	}
}

func TestContexts(t *testing.T) {
	d, path := newDesk(t)
	out, _ := d.runTrial(t, path, "contexts")
	const a, b, c = "0x10000000002", "0x10000000003", "0x10000000004" // the first context was not made
	sameText(t, out, "before cuInit: current 3 0\nbefore cuInit: create 3 0\nbefore cuInit: post 3\n"+
		"init with flags 1, without 0, again 0\nnone current 0 0\npop of nothing 201 0\ndevice of nothing 201, set to nothing 0\n"+
		"post to nothing 201, of NCCL 0\npush of nothing 201 0\npush of nonsense 201 0\n"+
		"create 0 "+a+"\ncreate 0 "+b+"\ncreate 0 "+c+"\nwith affinity 224 0\ncurrent 0 "+c+"\ncurrent 0 "+c+"\ndevice of b 0 1\n"+
		"set a 0 "+a+"\npop 0 "+a+"\npop 0 "+b+"\ncurrent 0 "+a+"\n"+
		"thread: current 0 0\nthread: device 201\nthread: set 0 "+a+"\nthread: device 0 0\nthread: destroy 0\nthread: current 0 0\n"+
		"current 0 "+a+"\ndevice 709, post 709, again destroyed 201\n"+
		"set to what is destroyed 201, pop 0, destroy b 0 and c 0\ncurrent 0 0\n")
}

func TestPrimaryContexts(t *testing.T) {
	d, path := newDesk(t)
	out, _ := d.runTrial(t, path, "primary")
	sameText(t, out, "release 201, of no device 101\nretain 0 0x10000000001\nretain 0 0x10000000001\nretain of no device 101 0\n"+
		"set 0, destroy 201, release 0\ndevice 0, release 0, device 709\nretain 0 0x10000000001\nreset 0 release 0 release 201\n")
	n := 0
	for _, l := range d.letters {
		if strings.HasPrefix(l, "cuDevicePrimaryCtx") {
			n++
		}
	}
	if n != 4 {
		t.Errorf("letters = %q, want 4 of cuDevicePrimaryCtx", d.letters)
	}
}

func TestAttributes(t *testing.T) {
	d, path := newDesk(t)
	out, _ := d.runTrial(t, path, "attributes")
	sameText(t, out, "before cuInit 3\nsum 5050; device 2 101, attribute 0 1, one too many 1, NULL 1\n")
	if want := []string{"attach", "device_attributes", "device_attributes", "exit"}; !slices.Equal(d.letters, want) {
		t.Errorf("letters = %q, want two requests for attributes", d.letters)
	}
}

// TestDigest: the vectors of RFC 1319.
func TestDigest(t *testing.T) {
	_, wait := startProgram(t, sanitized.compiledFile(t, "md2"), "", "", "a", "abc", "message digest", strings.Repeat("1234567890", 8))
	sameText(t, wait(), "8350e5a3e24c153df2275c9f80692773\n32ec01ec4a6dac72c0ab96fb34c0b5d1\nda853b0d3f88d99b30283a69e6ded6bb\n"+
		"ab4f496bfb2a530b219ff33031fe06b0\nd5976f79d83d3a0dc9806c3c66f3efd8\n")
}
