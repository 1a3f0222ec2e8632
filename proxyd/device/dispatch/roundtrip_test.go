// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/api"
	"github.com/singularity-slurm/singularity-slurm/tests/compiled"
)

// build compiles the C half of the tests once: the library as it is shipped, or a program under sanitizers.
type build struct {
	once sync.Once
	dir  string
	err  error
}

var plain, sanitized build

func TestMain(m *testing.M) {
	code := m.Run()
	for _, b := range []*build{&plain, &sanitized} {
		if b.dir != "" {
			os.RemoveAll(b.dir)
		}
	}
	os.Exit(code)
}

// compiledFile returns the path of a compiled file.
func (b *build) compiledFile(t *testing.T, name string) string {
	t.Helper()
	b.once.Do(func() {
		if b.dir, b.err = os.MkdirTemp("", "dispatch-"); b.err != nil {
			return
		}
		command := []string{"make", "-s", "-C", "../../../libsingshim/shim/device", "O=" + b.dir, "CFLAGS=-O0"}
		names := []string{"libsingshim-device.so"}
		if b == &sanitized {
			command = append(command, "SAN=1")
			names = []string{"roundtrip", "roundtrip-ring", "trial", "md2"}
		}
		for _, name := range names {
			command = append(command, filepath.Join(b.dir, name))
		}
		b.err = compiled.MakeFiles(b.dir, names, command...)
	})
	if b.err != nil {
		t.Fatalf("build of the C half: %v", b.err)
	}
	return filepath.Join(b.dir, name)
}

// startProgram runs the program, with an end of a socket pair as descriptor 3.
func startProgram(t *testing.T, program string, stdin string, args ...string) (conn net.Conn, wait func() string) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
	defer theirs.Close()
	conn, err = net.FileConn(ours)
	ours.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	var out, problem bytes.Buffer
	cmd := exec.Command(program, args...)
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.Env = append(os.Environ(), noLeaks)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &problem
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return conn, func() string {
		if err := cmd.Wait(); err != nil {
			t.Errorf("program %s %v: %v\n%s%s", program, args, err, out.String(), problem.String())
		}
		return out.String()
	}
}

// noLeaks keeps the sanitizer from looking for leaks, which some hosts do not allow.
const noLeaks = "ASAN_OPTIONS=detect_leaks=0"

// frame is the header of a message in test/loop.c.
type frame struct {
	Op, Kind uint32
	Comm     uint64
	Peer     int32
	N        uint64
}

// answerProgram serves a program until the program ends.
func answerProgram(conn net.Conn, b Backend) error {
	for {
		var head [28]byte
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		f := frame{
			binary.LittleEndian.Uint32(head[0:]), binary.LittleEndian.Uint32(head[4:]), binary.LittleEndian.Uint64(head[8:]),
			int32(binary.LittleEndian.Uint32(head[16:])), binary.LittleEndian.Uint64(head[20:]),
		}
		in := make([]byte, f.N)
		if _, err := io.ReadFull(conn, in); err != nil {
			return err
		}
		out, r, err := Serve(b, Call{}, f.Op, in, nil)
		if err != nil {
			return err
		}
		info, _ := Look(f.Op)
		if info.Posted != (f.Kind >= 2) || info.Counted != (f.Kind == 3) {
			return fmt.Errorf("%s came as %d", info.Symbol, f.Kind)
		}
		if info.Posted {
			if len(out) > 0 {
				return fmt.Errorf("%s was posted and answered", info.Symbol)
			}
			continue
		}
		back := binary.LittleEndian.AppendUint32(nil, uint32(r))
		back = binary.LittleEndian.AppendUint64(back, uint64(len(out)))
		if _, err := conn.Write(append(back, out...)); err != nil {
			return err
		}
	}
}

// TestRoundTrip makes every call with random arguments, from the C function through bytes to the backend and
// back, and compares the records that the two ends have written.
func TestRoundTrip(t *testing.T) {
	for _, fails := range []bool{false, true} {
		conn, wait := startProgram(t, sanitized.compiledFile(t, "roundtrip"), "", "calls", "7", "8")
		x := &echo{random: rand.New(rand.NewPCG(1, 2)), fails: fails}
		if err := answerProgram(conn, x); err != nil {
			t.Error(err)
		}
		conn.Close()
		lines := strings.Split(strings.TrimSuffix(wait(), "\n"), "\n")
		for i := range min(len(lines), len(x.lines)) {
			if lines[i] != x.lines[i] {
				t.Fatalf("call %d:\nC  %s\nGo %s", i, lines[i], x.lines[i])
			}
		}
		if len(lines) != len(x.lines) || len(lines) < 8*300 {
			t.Errorf("%d calls were made, %d arrived", len(lines), len(x.lines))
		}
	}
}

func TestMissed(t *testing.T) {
	_, wait := startProgram(t, sanitized.compiledFile(t, "roundtrip"), "", "missed")
	got := wait()
	const texture = "of textures there are objects of arrays and linear memory: no references, mipmaps, cubes or sparse arrays"
	want := "missed cuMipmappedArrayCreate: " + texture + "\ncuMipmappedArrayCreate 801\n" +
		"missed cuMemcpyBatchAsync_v2_ptsz: not yet\ncuMemcpyBatchAsync_v2_ptsz 801\n" +
		"missed ncclCommResume: the job is suspended from outside; ask singctl\nncclCommResume 5\n" +
		"missed nvmlDeviceSetEccMode: settings of a device are the administrator's\nnvmlDeviceSetEccMode 3\n" +
		// Each function that is not supported prints its message once only.
		"cuMipmappedArrayCreate 801\ncuMemcpyBatchAsync_v2_ptsz 801\nncclCommResume 5\nnvmlDeviceSetEccMode 3\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestNull(t *testing.T) {
	conn, wait := startProgram(t, sanitized.compiledFile(t, "roundtrip"), "", "null")
	if err := answerProgram(conn, &echo{random: rand.New(rand.NewPCG(1, 2))}); err != nil {
		t.Error(err)
	}
	if got, want := wait(), "1\n1\n1\n1\n1\n1\n4\n2\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLocal(t *testing.T) {
	_, wait := startProgram(t, sanitized.compiledFile(t, "roundtrip"), "", "local")
	want := "0 0 CUDA_ERROR_OUT_OF_MEMORY: out of memory\n1 none\n" +
		"NCCL operation in progress; no error; unknown result code\nNot Supported; Unknown Error\n" +
		"0 0 1\n0 1\n0 2 1\n0 1 1\n1\n500\n0\n1\n"
	if got := wait(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestFind: the look-up in C finds the entry of the table, for every name and for the versions below, at and
// above each entry's version.
func TestFind(t *testing.T) {
	table, err := api.Load()
	if err != nil {
		t.Fatal(err)
	}
	entries := table.Entries()
	var questions strings.Builder
	ask := func(name string, version int, perThread bool) {
		best := api.Entry{Symbol: "-"}
		for _, e := range entries {
			if e.Name == name && e.Version <= version && (!e.PerThread || perThread) &&
				(best.Name == "" || e.PerThread == best.PerThread && e.Version > best.Version || e.PerThread && !best.PerThread) {
				best = e
			}
		}
		fmt.Fprintf(&questions, "%s %d %d %s\n", name, version, map[bool]int{true: 1}[perThread], best.Symbol)
	}
	for _, e := range entries {
		for _, version := range []int{e.Version - 1, e.Version, 99999} {
			ask(e.Name, version, false)
			ask(e.Name, version, true)
		}
		ask(e.Name+"X", 99999, false)
	}
	_, wait := startProgram(t, sanitized.compiledFile(t, "roundtrip"), questions.String(), "find")
	if got := wait(); got != "" {
		t.Errorf("look-ups whose result is wrong: %v", got)
	}
}

// TestLibrary: the library exports the symbols of the table and no other symbols, and runs no code when it is
// loaded.
func TestLibrary(t *testing.T) {
	if testing.Short() {
		t.Skip("the library is compiled for this test alone")
	}
	f, err := elf.Open(plain.compiledFile(t, "libsingshim-device.so"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF {
			got = append(got, s.Name)
		}
	}
	table, err := api.Load()
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, e := range table.Symbols() {
		want = append(want, e.Symbol)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%d symbols are exported, want %d", len(got), len(want))
		for _, s := range want {
			if !slices.Contains(got, s) {
				t.Errorf("%s is missing", s)
			}
		}
	}
	// The C runtime brings these into any library: a constructor, and a relocation for each thread-local
	// variable.
	for _, name := range []string{".init_array", ".rela.dyn"} {
		if s := f.Section(name); s != nil && s.Size > map[string]uint64{".init_array": 8, ".rela.dyn": 24 * 14}[name] {
			t.Errorf("%s has %d bytes: loading it costs", name, s.Size)
		}
	}
}
