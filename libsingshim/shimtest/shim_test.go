// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package shimtest holds the tests of libsingshim.so, which is C.
package shimtest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/api"
	"github.com/singularity-slurm/singularity-slurm/proxyd/files"
)

var built struct {
	once   sync.Once
	dir    string
	err    error
	behave string
	shims  map[string]string // by kind: LD_PRELOAD
}

func TestMain(m *testing.M) {
	code := m.Run()
	for _, dir := range []string{built.dir, plain.dir} {
		if dir != "" {
			os.RemoveAll(dir)
		}
	}
	os.Exit(code)
}

func runCommand(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %v: %w: %s", name, args, err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

func buildTools(t *testing.T) {
	t.Helper()
	built.once.Do(func() {
		built.err = func() error {
			var err error
			// Not in /tmp: files there are not recorded.
			if built.dir, err = os.MkdirTemp("/var/lib", "shim-test-"); err != nil {
				return err
			}
			san := filepath.Join(built.dir, "san")
			built.behave = filepath.Join(built.dir, "behave")
			for _, c := range [][]string{
				{"mkdir", san},
				{"make", "-s", "-C", "..", "O=" + built.dir, "CFLAGS=-O0"},
				{"make", "-s", "-C", "..", "O=" + san, "SAN=1", "CFLAGS=-O0"},
				{"cc", "-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-o", built.behave, "testdata/behave.c"},
				{"cc", "-std=c11", "-O2", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2", "-w", "-pthread", "-o", built.behave + "-fortified", "testdata/behave.c"},
			} {
				if _, err := runCommand(c[0], c[1:]...); err != nil {
					return err
				}
			}
			asan, err := runCommand("cc", "-print-file-name=libasan.so")
			if err != nil {
				return err
			}
			ubsan, err := runCommand("cc", "-print-file-name=libubsan.so")
			if err != nil {
				return err
			}
			plain := filepath.Join(built.dir, "libsingshim.so")
			built.shims = map[string]string{"plain": plain, "sanitized": asan + ":" + ubsan + ":" + filepath.Join(san, "libsingshim.so")}
			return nil
		}()
	})
	if os.Geteuid() != 0 {
		t.Skip("SKIP: needs root: a journal belongs to another user than its folder")
	}
	if built.err != nil {
		t.Fatalf("build the shim and its programs: %v", built.err)
	}
}

// trial is a run of behave in a folder of its own.
type trial struct {
	dir     string
	journal *files.ChangeList
	env     []string
}

func newTrial(t *testing.T, preload string) *trial {
	t.Helper()
	dir, err := os.MkdirTemp(built.dir, "t-")
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(dir, "list")
	if err := files.CreateChangeList(list, 0, 0); err != nil {
		t.Fatal(err)
	}
	j, err := files.OpenChangeList(list, filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	work := filepath.Join(dir, "work")
	if err := os.Mkdir(work, 0o755); err != nil {
		t.Fatal(err)
	}
	return &trial{work, j, []string{
		"PATH=/usr/bin:/bin", "LD_PRELOAD=" + preload, files.Env + "=" + filepath.Join(list, files.ListName),
		"ASAN_OPTIONS=detect_leaks=0:abort_on_error=0", // leaks of the program are not tested
	}}
}

func (r *trial) runBehave(program, what string) (string, error) {
	cmd := exec.Command(program, what)
	cmd.Dir, cmd.Env = r.dir, r.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// createdFiles returns which files were made, relative to the folder.
func (r *trial) createdFiles(t *testing.T) map[string]int {
	t.Helper()
	got, err := r.journal.Since(0)
	if err != nil {
		t.Fatal(err)
	}
	if got.Lost {
		t.Error("the journal says that records were lost")
	}
	all := map[string]int{}
	for _, e := range got.Entries {
		if e.Kind == files.Created {
			rel, err := filepath.Rel(r.dir, e.Path)
			if err != nil {
				t.Fatal(err)
			}
			all[rel]++
		}
	}
	return all
}

// TestBehaviour: a program that looks closely finds no difference, and the files that the program makes are
// in the journal.
func TestBehaviour(t *testing.T) {
	buildTools(t)
	for kind, preload := range built.shims {
		for _, program := range []string{built.behave, built.behave + "-fortified"} {
			for _, what := range []string{"errors", "descriptors", "storm", "children", "repeated", "alike", "renamed", "ends", "refused"} {
				t.Run(kind+"/"+filepath.Base(program)+"/"+what, func(t *testing.T) {
					r := newTrial(t, preload)
					out, err := r.runBehave(program, what)
					if killed := err != nil && strings.Contains(err.Error(), "killed"); err != nil && !killed || killed != (what == "ends") {
						t.Fatalf("behave: %v: %s", err, out)
					}
					checkCreated(t, what, out, r.createdFiles(t))
				})
			}
		}
	}
}

func checkCreated(t *testing.T, what, out string, got map[string]int) {
	t.Helper()
	var want []string
	switch what {
	case "errors":
		want = []string{"f", "g", "missing"}
	case "descriptors":
		for i := range 100 {
			want = append(want, "f"+strconv.Itoa(i))
		}
		want = append(want, "afterwards")
	case "storm":
		for thread := range 9 {
			for i := range 500 {
				want = append(want, fmt.Sprintf("t%d-%d", thread, i))
				if i%50 == 0 {
					want = append(want, fmt.Sprintf("c%d-%d", thread, i))
				}
			}
		}
		ticks, err := strconv.Atoi(strings.TrimSpace(out))
		if err != nil || ticks == 0 {
			t.Errorf("interrupted %q times", out)
		}
		for i := range ticks {
			want = append(want, fmt.Sprintf("s%04d", i%10000))
		}
	case "children":
		want = []string{"first", "d/in-child", "d/from-sh", "second", "from-sh", "d/third", "d/fourth", "d/fifth"}
	case "repeated":
		want = []string{"same", "d/same", "e/same"}
		for _, name := range want {
			if got[name] < 2 { // the process itself has removed its files; to remove one once more adds no entry
				t.Errorf("%s was made %d times by the journal, want 2", name, got[name])
			}
		}
	case "alike":
		want = []string{"a.log", "b.log", "d0/file0.txt", "d1/file2.txt", "d2/file4.txt"}
	case "renamed":
		want = []string{"d/before", "e/after", "above/f/last", "over/f/end"}
	case "ends":
		want = []string{"killed"}
	}
	for _, name := range want {
		if got[name] == 0 {
			t.Errorf("%s is not in the journal", name)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d files in the journal, want %d", len(got), len(want))
	}
}

// TestOtherInterposers: before or after another interposer, both work.
func TestOtherInterposers(t *testing.T) {
	buildTools(t)
	found, _ := filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1")
	if len(found) == 0 {
		t.Skip("SKIP: no libfaketime here (package libfaketime)")
	}
	shim := built.shims["plain"]
	for _, preload := range []string{shim + ":" + found[0], found[0] + ":" + shim, found[0] + " " + shim} {
		r := newTrial(t, preload)
		r.env = append(r.env, "FAKETIME=@1999-12-31 23:00:00", "TZ=UTC")
		cmd := exec.Command("/bin/sh", "-c", "date +%Y >year; cat year")
		cmd.Dir, cmd.Env = r.dir, r.env
		out, err := cmd.CombinedOutput()
		if err != nil || string(out) != "1999\n" {
			t.Errorf("with LD_PRELOAD=%s: date printed %q, %v, want 1999", preload, out, err)
		}
		if r.createdFiles(t)["year"] != 1 {
			t.Errorf("with LD_PRELOAD=%s: the file year is not in the journal", preload)
		}
	}
}

// TestWithoutList: without a list, or with a damaged one, programs run as with a list.
func TestWithoutList(t *testing.T) {
	buildTools(t)
	dir := t.TempDir()
	short := filepath.Join(dir, "short")
	if err := os.WriteFile(short, []byte("SINGLST1"), 0o600); err != nil {
		t.Fatal(err)
	}
	wrong := filepath.Join(dir, "wrong")
	if err := os.WriteFile(wrong, bytes.Repeat([]byte("x"), 4<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, list := range []string{"", "relative", "/missing/list", short, wrong, "/dev/zero", dir, "/" + strings.Repeat("x", 9999)} {
		r := newTrial(t, built.shims["plain"])
		r.env = append(r.env, files.Env+"="+list)
		if out, err := r.runBehave(built.behave, "errors"); err != nil {
			t.Errorf("with list %.40q: %v: %s", list, err, out)
		}
	}
	b, err := os.ReadFile(wrong)
	if err != nil || !bytes.Equal(b, bytes.Repeat([]byte("x"), 4<<20)) {
		t.Errorf("a file that is no list was written to: %v", err)
	}
}

// TestOnlyInterceptorsAreSeen: the program sees no other symbol of ours; TestSymbols looks at the symbols of the device
// half.
func TestOnlyInterceptorsAreSeen(t *testing.T) {
	buildTools(t)
	out, err := runCommand("nm", "-D", "--defined-only", built.shims["plain"])
	if err != nil {
		t.Fatal(err)
	}
	libc, err := runCommand("sh", "-c", "nm -D --defined-only $(cc -print-file-name=libc.so.6)")
	if err != nil {
		t.Fatal(err)
	}
	device := regexp.MustCompile("^(cu|p?nccl|nvml)[A-Z]|^nvmlInit")
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if name := f[len(f)-1]; !device.MatchString(name) && !slices.Contains(api.LiburingCalls, name) && !strings.Contains(libc, " "+name+"@") {
			t.Errorf("%s is no function of libc or liburing", name)
		}
	}
}

// TestFoothold: the first mapping of a program that may be executed can be written to by
// a debugger, even where the program's own first mapping is shared.
func TestFoothold(t *testing.T) {
	buildTools(t)
	for kind, preload := range built.shims {
		cmd := exec.Command("cat", "/proc/self/maps")
		cmd.Env = append(os.Environ(), "LD_PRELOAD="+preload, "ASAN_OPTIONS=detect_leaks=0")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: cat /proc/self/maps: %v", kind, err)
		}
		for line := range strings.Lines(string(out)) {
			if w := strings.Fields(line); w[1][2] == 'x' {
				if w[0] != "003f0000-003f1000" || w[1] != "r-xp" {
					t.Errorf("%s: first executable mapping %s, want 003f0000-003f1000 r-xp", kind, line)
				}
				break
			}
		}
	}
}
