// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"bytes"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestFingerprintOfThisNode(t *testing.T) {
	f, err := FingerprintOf("/")
	if err != nil {
		t.Fatal(err)
	}
	if f.Arch == "" || f.Kernel == "" || f.Vendor == "" || len(f.Flags) < 10 {
		t.Errorf("FingerprintOf this node = %+v; want architecture, kernel, vendor and flags", f)
	}
	libc := slices.ContainsFunc(slices.Collect(keysOf(f.Files)), func(p string) bool { return strings.HasSuffix(p, "/libc.so.6") })
	if !libc {
		t.Errorf("no C library among %v", f.Files)
	}
	if err := Compatible(f, f); err != nil {
		t.Errorf("this node with itself: %v", err)
	}
	b, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	var back Fingerprint
	if err := json.Unmarshal(b, &back); err != nil || !reflect.DeepEqual(f, back) {
		t.Errorf("not the same after JSON: %v %+v", err, back)
	}
}

// TestFingerprintOfATree: links in a capsule's tree lead to its own files, not to the host's.
func TestFingerprintOfATree(t *testing.T) {
	root := t.TempDir()
	if err := errors.Join(os.MkdirAll(filepath.Join(root, "usr/lib64"), 0o755), os.Symlink("/usr/bin", filepath.Join(root, "bin")),
		os.Symlink("/etc/passwd", filepath.Join(root, "usr/lib64/libc.so.6"))); err != nil {
		t.Fatal(err)
	}
	f, err := FingerprintOf(root, "/bin/true", "/../../../../bin/true")
	if err != nil || len(f.Files) != 0 {
		t.Errorf("files of the fingerprint = %v, %v; want no files from outside of the root", f.Files, err)
	}
	if _, err := FingerprintOf(filepath.Join(root, "gone")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("FingerprintOf a missing tree: %v; want ErrNotExist", err)
	}
}

func keysOf(m map[string]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func TestCompatible(t *testing.T) {
	base := Fingerprint{Arch: "amd64", Vendor: "GenuineIntel", Model: "Old", Flags: []string{"avx2", "sse2"}, Kernel: "6.1.0-18-amd64",
		Files: map[string]string{"/lib/libc.so.6": "aaaa", "/lib/libm.so.6": "bbbb"}}
	changed := func(f func(*Fingerprint)) Fingerprint {
		c := base
		c.Flags, c.Files = slices.Clone(base.Flags), map[string]string{"/lib/libc.so.6": "aaaa", "/lib/libm.so.6": "bbbb"}
		f(&c)
		return c
	}
	tests := []struct {
		name string
		now  Fingerprint
		want string // "": compatible
	}{
		{"the same", base, ""},
		{"more instructions", changed(func(f *Fingerprint) { f.Flags = append(f.Flags, "avx512f") }), ""},
		{"another model", changed(func(f *Fingerprint) { f.Model = "New" }), ""},
		{"a newer kernel", changed(func(f *Fingerprint) { f.Kernel = "6.18.1" }), ""},
		{"another patch level", changed(func(f *Fingerprint) { f.Kernel = "6.1.0-2-amd64" }), ""},
		{"a file more", changed(func(f *Fingerprint) { f.Files["/lib/x"] = "cc" }), ""},
		{"a kernel that cannot be read", changed(func(f *Fingerprint) { f.Kernel = "custom" }), ""},
		{"fewer instructions", changed(func(f *Fingerprint) { f.Flags, f.Model = []string{"sse2"}, "Older" }), "incompatible node: its CPU (Older) lacks avx2"},
		{"another vendor", changed(func(f *Fingerprint) { f.Vendor = "AuthenticAMD" }), "incompatible node: captured on a CPU of GenuineIntel, this is one of AuthenticAMD"},
		{"another architecture", changed(func(f *Fingerprint) { f.Arch, f.Flags = "arm64", nil }), "incompatible node: captured on amd64, this is arm64"},
		{"an older kernel", changed(func(f *Fingerprint) { f.Kernel = "5.15.0" }), "incompatible node: captured on Linux 6.1.0-18-amd64, this is the older 5.15.0"},
		{"another C library", changed(func(f *Fingerprint) { f.Files["/lib/libc.so.6"] = "ffff" }), "incompatible node: /lib/libc.so.6 is another build (ffff, was aaaa)"},
		{"no libm, older kernel", changed(func(f *Fingerprint) { delete(f.Files, "/lib/libm.so.6"); f.Kernel = "6.0" }),
			"incompatible node: captured on Linux 6.1.0-18-amd64, this is the older 6.0; /lib/libm.so.6 is missing"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := Compatible(base, tt.now)
			if tt.want == "" {
				if err != nil {
					t.Errorf("Compatible refused: %v; want nil", err)
				}
				return
			}
			if err == nil || err.Error() != tt.want || !errors.Is(err, ErrIncompatible) {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}

func TestParseCPU(t *testing.T) {
	const x86 = "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: EPYC\nflags\t\t: sse2 avx2 hypervisor smep ibrs\n\nprocessor\t: 1\nvendor_id\t: other\nflags\t\t: avx512f\n\n"
	f, err := parseCPU(strings.NewReader(x86))
	if err != nil || f.Vendor != "AuthenticAMD" || f.Model != "EPYC" || !slices.Equal(f.Flags, []string{"avx2", "sse2"}) {
		t.Errorf("parseCPU of x86 = %+v, %v; want the first CPU, without flags of kernels", f, err)
	}
	if _, err := parseCPU(strings.NewReader("processor : 0\n")); err == nil || err.Error() != "/proc/cpuinfo names no features" {
		t.Errorf("parseCPU without flags: %v", err)
	}
}

// TestBuildIDs compares with the build ids that the ELF library of Go finds.
func TestBuildIDs(t *testing.T) {
	programs, err := filepath.Glob("/usr/bin/*")
	if err != nil || len(programs) == 0 {
		t.Fatal("no programs in /usr/bin", err)
	}
	compared := 0
	for _, p := range programs {
		f, err := elf.Open(p)
		if err != nil {
			if id, err := buildIDIn("/", p); !errors.Is(err, ErrNoBuildID) && !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s is no ELF file, but has id %q, %v", p, id, err)
			}
			continue
		}
		want := ""
		if s := f.Section(".note.gnu.build-id"); s != nil && inNotes(f, s) {
			if d, err := s.Data(); err == nil && len(d) > 16 {
				want = hex.EncodeToString(d[16:])
			}
		}
		f.Close()
		if want == "" {
			continue
		}
		if got, err := buildIDIn("/", p); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", p, got, err, want)
		}
		compared++
	}
	t.Logf("%d programs compared", compared)
	if compared == 0 {
		t.Error("no program with a build id")
	}
}

// inNotes says whether a section is in a note segment, where the kernel looks. Go's linker puts its
// own id there, and a GNU build id elsewhere.
func inNotes(f *elf.File, s *elf.Section) bool {
	return slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool {
		return p.Type == elf.PT_NOTE && p.Off <= s.Offset && s.Offset < p.Off+p.Filesz
	})
}

func TestBuildIDOfWhatIsNoFile(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{fifo, "/dev/zero", t.TempDir()} {
		if _, err := buildIDIn("/", path); !errors.Is(err, ErrNoBuildID) {
			t.Errorf("buildIDIn(/, %s): %v; want ErrNoBuildID", path, err)
		}
	}
	if _, err := buildIDIn("/", "/nowhere"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("buildIDIn of a missing file: %v; want ErrNotExist", err)
	}
}

// TestBuildIDIsRememberedAsItIs: of a file that was replaced, or written to, the old build id is
// not returned.
func TestBuildIDIsRememberedAsItIs(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "program"), filepath.Join(dir, "new")
	check := func(what, want string) {
		t.Helper()
		for range 2 {
			if id, err := buildIDIn("/", path); id != want || (want == "") != errors.Is(err, ErrNoBuildID) {
				t.Errorf("%s: %q, %v; want %q", what, id, err, want)
			}
		}
	}
	system, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	id, err := buildIDIn("/", system)
	if err != nil {
		t.Fatal(err)
	}
	one, err := os.ReadFile(system)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(one, mustHex(t, id))
	if at < 0 {
		t.Fatal("the build id of the file is not among its bytes")
	}
	two := bytes.Clone(one)
	two[at] ^= 0xff
	changed := hex.EncodeToString(two[at : at+len(id)/2])
	if err := os.WriteFile(path, one, 0o755); err != nil {
		t.Fatal(err)
	}
	check("first", id)
	if err := errors.Join(os.WriteFile(other, two, 0o755), os.Rename(other, path)); err != nil {
		t.Fatal(err)
	}
	check("replaced", changed)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	check("a script", "")
}

func mustHex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func FuzzBuildID(f *testing.F) {
	if b, err := os.ReadFile("/bin/true"); err == nil {
		f.Add(b[:min(len(b), 4096)])
	}
	f.Add([]byte("\x7fELF\x02\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		id, err := readBuildID(bytes.NewReader(b))
		if (err == nil) != (id != "") || err != nil && !errors.Is(err, ErrNoBuildID) && !errors.Is(err, io.EOF) {
			t.Errorf("readBuildID = %q, %v; want an id, ErrNoBuildID or EOF", id, err)
		}
	})
}
