// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/tests/compiled"
)

// patience ends a test that would never end.
const patience = 60 * time.Second

// Operations of testdata/load.c.
const (
	opCheck = 1 + iota
	opEcho
	opStamp
	opCount
	opHold
	opPing
	opSink
)

var built struct {
	sync.Mutex
	dir string
}

func TestMain(m *testing.M) {
	code := m.Run()
	if built.dir != "" {
		os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// sanitizers, by the name of the build.
var sanitizers = map[string][]string{
	"plain":  {"-O2"},
	"asan":   {"-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"},
	"thread": {"-O1", "-fsanitize=thread"},
}

// shim is the process's end.
var shim = []string{"../shim/ring.c", "../shim/thread_lane.c", "../shim/ring_words.c"}

// buildProgram compiles testdata/NAME*.c and the shim's end, once.
func buildProgram(t testing.TB, name, how string) string {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	if built.dir == "" {
		var err error
		if built.dir, err = os.MkdirTemp("", "wire-test-"); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(built.dir, name+"-"+how)
	if _, err := os.Stat(program); err == nil {
		return program
	}
	sources, err := filepath.Glob("testdata/" + name + "*.c")
	if err != nil {
		t.Fatal(err)
	}
	command := slices.Concat([]string{"cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-g", "-pthread"}, sanitizers[how],
		[]string{"-o", program}, sources, shim)
	if err := compiled.MakeFiles(built.dir, []string{name + "-" + how}, command...); err != nil {
		t.Fatal(err)
	}
	return program
}

// process is a program with a ring, which is served.
type process struct {
	ring   *Ring
	cmd    *exec.Cmd
	out    *os.File
	ended  chan error // of the program
	served chan error
}

func startProgram(t testing.TB, handle func(*Message), program string, args ...any) *process {
	t.Helper()
	r, err := Create(Options{})
	if err != nil {
		t.Fatal(err)
	}
	return startOn(t, r, handle, program, args...)
}

// newProcess prepares a program that has the ring.
func newProcess(t testing.TB, r *Ring, program string, args ...any) *process {
	t.Helper()
	p := &process{ring: r, ended: make(chan error, 1), served: make(chan error, 1)}
	p.cmd = exec.Command(program)
	if strings.HasSuffix(program, "-thread") {
		p.cmd = exec.Command("setarch", "--addr-no-randomize", program) // mappings are where the program expects them
	}
	p.cmd.Env = append(os.Environ(), "ASAN_OPTIONS=detect_leaks=0")
	for _, a := range args {
		p.cmd.Args = append(p.cmd.Args, fmt.Sprint(a))
	}
	var err error
	if p.out, err = os.CreateTemp(t.TempDir(), "out"); err != nil {
		t.Fatal(err)
	}
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	p.cmd.ExtraFiles = []*os.File{r.File()}
	return p
}

// startOn starts the program with the ring, and serves it. When the program has ended, the messages that it left are
// handled.
func startOn(t testing.TB, r *Ring, handle func(*Message), program string, args ...any) *process {
	t.Helper()
	p := newProcess(t, r, program, args...)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		r.Close()
	})
	go func() {
		err := p.cmd.Wait()
		r.Finish()
		p.ended <- err
	}()
	go func() { p.served <- r.Serve(handle) }()
	return p
}

// waitForEnd returns the errors with which the program and Serve ended.
func (p *process) waitForEnd(t testing.TB) (ended, served error) {
	t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for range 2 {
		select {
		case err := <-p.ended:
			ended = err
			if err != nil {
				out, _ := os.ReadFile(p.out.Name())
				ended = fmt.Errorf("%w: %s", err, out)
			}
		case err := <-p.served:
			served = err
		case <-late.C:
			b, err := p.ring.Busy()
			out, _ := os.ReadFile(p.out.Name())
			t.Fatalf("neither the program nor Serve ended: Busy = %+v, %v: %s", b, err, out)
		}
	}
	return ended, served
}

// mustEndWell fails the test unless both ended well.
func (p *process) mustEndWell(t testing.TB) {
	t.Helper()
	ended, served := p.waitForEnd(t)
	if ended != nil || served != nil {
		t.Fatalf("the program: %v; the server: %v", ended, served)
	}
}

func logSeed(t testing.TB) uint64 {
	s := uint64(time.Now().UnixNano())
	if v, err := strconv.ParseUint(os.Getenv("WIRE_SEED"), 10, 64); err == nil {
		s = v
	}
	t.Logf("WIRE_SEED=%d", s)
	return s
}

// random is the random number generator of testdata/load.c.
type random uint64

func (r *random) nextNumber() uint64 {
	*r += 0x9e3779b97f4a7c15
	x := uint64(*r)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func (r *random) fillBytes(b []byte) {
	for ; len(b) >= 8; b = b[8:] {
		binary.LittleEndian.PutUint64(b, r.nextNumber())
	}
	var last [8]byte
	binary.LittleEndian.PutUint64(last[:], r.nextNumber())
	copy(b, last[:])
}

// witness is a handler that remembers the first error of the messages. A single Serve uses a witness.
type witness struct {
	mu      sync.Mutex
	wrong   error
	seen    map[uint64]uint64 // by thread: how many
	stamp   uint64
	handled map[uint32]int
	number  uint64
	hold    func(*Message)
	bulk    []byte
}

func newWitness() *witness {
	return &witness{seen: map[uint64]uint64{}, handled: map[uint32]int{}, bulk: make([]byte, recordUnits*unitSize)}
}

func (w *witness) checkMessages(t testing.TB) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wrong != nil {
		t.Fatalf("the first wrong message: %v", w.wrong)
	}
}

func (w *witness) countMessages(op uint32) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.handled[op]
}

func (w *witness) handleMessage(m *Message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.checkMessage(m); err != nil && w.wrong == nil {
		w.wrong = fmt.Errorf("message %d: operation %d: %w", m.Number, m.Op, err)
	}
}

func (w *witness) checkMessage(m *Message) error {
	if m.Number != w.number {
		return fmt.Errorf("number %d is next", w.number)
	}
	w.number++
	w.handled[m.Op]++
	switch m.Op {
	case opCheck, opEcho:
		return w.lookInside(m)
	case opStamp:
		n := binary.LittleEndian.Uint64(m.Args)
		if n != w.stamp+1 {
			return fmt.Errorf("stamp %d after %d", n, w.stamp)
		}
		w.stamp = n
	case opHold:
		w.hold(m)
	case opCount, opPing, opSink:
		if c := m.Call(); c != nil {
			return c.Answer(0)
		}
	default:
		return errors.New("nobody sent that")
	}
	return nil
}

// lookInside compares a message's bytes with its header, and answers a call.
func (w *witness) lookInside(m *Message) error {
	if len(m.Args) < 24 {
		return fmt.Errorf("%d bytes", len(m.Args))
	}
	thread, number := binary.LittleEndian.Uint64(m.Args), binary.LittleEndian.Uint64(m.Args[8:])
	bytes := random(binary.LittleEndian.Uint64(m.Args[16:]))
	if number != w.seen[thread] {
		return fmt.Errorf("thread %d: %d after %d", thread, number, w.seen[thread])
	}
	w.seen[thread]++
	got := m.Args[24:]
	if err := bytes.compareBytes(got); err != nil {
		return err
	}
	bulk := w.bulk[:m.BulkSize()]
	if n := m.Bulk(bulk, 0); n != len(bulk) {
		return fmt.Errorf("%d bytes of %d", n, len(bulk))
	}
	if err := bytes.compareBytes(bulk); err != nil {
		return fmt.Errorf("bulk: %w", err)
	}
	c := m.Call()
	if c == nil {
		return nil
	}
	slices.Reverse(got)
	half := len(got) / 2
	if err := c.Answer(int32(number), make([]byte, c.Room()+1)); err == nil {
		return errors.New("an answer that is too long was taken")
	}
	if err := c.Answer(int32(number), got[:half], got[half:]); err != nil {
		return err
	}
	if err := c.Answer(0); !errors.Is(err, ErrAnswered) {
		return fmt.Errorf("a second answer: %w", err)
	}
	return nil
}

func (r *random) compareBytes(b []byte) error {
	want := make([]byte, len(b))
	r.fillBytes(want)
	if !slices.Equal(b, want) {
		return fmt.Errorf("%d bytes are not what was sent", len(b))
	}
	return nil
}
