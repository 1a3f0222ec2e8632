// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/tests/compiled"
)

// Owners of the files. The machine needs no accounts for them.
const (
	testUID  = 12345
	otherUID = 12346
)

// parent is where tests keep files: files below /tmp are not recorded.
var parent string

// programs are the C programs of these tests, built once.
var programs struct {
	once      sync.Once
	shim, ops string
	err       error
}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == Arg {
		os.Exit(Run(os.Args[2:]))
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	var err error
	if parent, err = os.MkdirTemp("/var/lib", "files-test-"); err == nil {
		err = os.Chmod(parent, 0o755)
		defer os.RemoveAll(parent)
	}
	if err != nil && os.Geteuid() == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func needRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIP: needs root: it works as several users, or makes namespaces")
	}
}

func testDeadline(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// buildTools builds the shim and ops, or takes them from FILES_TOOLS on a machine without a
// compiler.
func buildTools(t testing.TB) {
	t.Helper()
	programs.once.Do(func() {
		dir := filepath.Join(parent, "tools")
		if given := os.Getenv("FILES_TOOLS"); given != "" { //nolint:forbidigo // a test has no other argument
			dir = given
		}
		programs.shim, programs.ops = filepath.Join(dir, "libsingshim.so"), filepath.Join(dir, "ops")
		if _, err := os.Stat(programs.shim); err == nil {
			return
		}
		programs.err = os.MkdirAll(dir, 0o755)
		programs.err = errors.Join(programs.err,
			compiled.MakeFiles(dir, []string{"libsingshim.so"}, "make", "-s", "-C", "../../libsingshim", "O="+dir, programs.shim),
			compiled.MakeFiles(dir, []string{"ops"},
				"cc", "-std=c11", "-O1", "-Wall", "-Wextra", "-Wno-unused-result", "-Wno-format-overflow", "-o", programs.ops, "testdata/ops.c"))
	})
	if programs.err != nil {
		t.Fatalf("build the programs of the tests: %v", programs.err)
	}
}

// ownFolder returns a new folder of the test user's.
func ownFolder(t testing.TB) string {
	t.Helper()
	needRoot(t)
	dir, err := os.MkdirTemp(parent, "t-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chown(dir, testUID, testUID)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// changeListFor returns a change list, and the environment variable for programs.
func changeListFor(t testing.TB) (*ChangeList, string) {
	t.Helper()
	dir, err := os.MkdirTemp(parent, "journal-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := errors.Join(os.Chmod(dir, 0o755), CreateChangeList(filepath.Join(dir, "files"), testUID, testUID)); err != nil {
		t.Fatal(err)
	}
	j, err := OpenChangeList(filepath.Join(dir, "files"), filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j, Env + "=" + filepath.Join(dir, "files", ListName)
}

// runAsUser runs a program as the test user, with the shim.
func runAsUser(t testing.TB, env string, argv ...string) {
	t.Helper()
	buildTools(t)
	cmd := exec.CommandContext(testDeadline(t), argv[0], argv[1:]...)
	cmd.Env = []string{"LD_PRELOAD=" + programs.shim, env, "PATH=/usr/bin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: testUID, Gid: testUID, NoSetGroups: false}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("run %v: %v: %s", argv, err, out)
	}
}

// startAs starts a program as the test user, with the shim; it goes with the test.
func startAs(t testing.TB, env string, argv ...string) (in io.Writer, out *bufio.Reader) {
	t.Helper()
	buildTools(t)
	cmd := exec.CommandContext(testDeadline(t), argv[0], argv[1:]...)
	cmd.Env = []string{"LD_PRELOAD=" + programs.shim, env, "PATH=/usr/bin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: testUID, Gid: testUID}}
	w, err1 := cmd.StdinPipe()
	r, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return w, bufio.NewReader(r)
}

var testUser = User{UID: testUID, GID: testUID}

// shelf is a Saver, Keeper and Loader in memory.
type shelf struct {
	streams map[string][]byte
	kept    []string
	loaded  int64
}

func newShelf() *shelf { return &shelf{streams: map[string][]byte{}} }

type memoryStream struct {
	bytes.Buffer
	done func([]byte)
}

func (b *memoryStream) Close() error { b.done(b.Bytes()); return nil }

func (s *shelf) Create(name string) (io.WriteCloser, error) {
	if _, ok := s.streams[name]; ok {
		return nil, fs.ErrExist
	}
	return &memoryStream{done: func(b []byte) { s.streams[name] = b }}, nil
}

func (s *shelf) Keep(_ context.Context, name string) error {
	if _, ok := s.streams[name]; !ok {
		return fs.ErrNotExist
	}
	s.kept = append(s.kept, name)
	return nil
}

// Open returns a reader that can seek in every second stream.
func (s *shelf) Open(name string) (io.ReadCloser, error) {
	b, ok := s.streams[name]
	if !ok {
		return nil, fs.ErrNotExist
	}
	s.loaded += int64(len(b))
	if len(name)%2 == 0 {
		return struct {
			io.ReadSeeker
			io.Closer
		}{bytes.NewReader(b), io.NopCloser(nil)}, nil
	}
	return io.NopCloser(bytes.NewBuffer(b)), nil
}

func (s *shelf) totalSize() (n int64) {
	for _, b := range s.streams {
		n += int64(len(b))
	}
	return n
}

// describeTree describes a tree, byte for byte. Names of the same file are marked as such.
func describeTree(t testing.TB, dir string) []string {
	t.Helper()
	var out []string
	first := map[uint64]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			return err
		}
		line := fmt.Sprintf("%s %s uid=%d gid=%d", rel, fs.FileMode(st.Mode&0o7777)|d.Type(), st.Uid, st.Gid)
		if d.Type() != fs.ModeSymlink && rel != "." { // that file was there before the job
			line += fmt.Sprintf(" mtime=%d", st.Mtim.Nano())
		}
		switch {
		case d.Type().IsRegular():
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %d bytes %x", len(b), sha256.Sum256(b))
			if o, ok := first[st.Ino]; ok {
				line += " is " + o
			} else {
				first[st.Ino] = rel
			}
		case d.Type() == fs.ModeSymlink:
			target, err := os.Readlink(p)
			if err != nil {
				return err
			}
			line += " -> " + target
		}
		out = append(out, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// differentLines returns the lines that only one of two texts has.
func differentLines(want, got []string) string {
	var b strings.Builder
	for _, l := range want {
		if !slices.Contains(got, l) {
			fmt.Fprintln(&b, "-", l)
		}
	}
	for _, l := range got {
		if !slices.Contains(want, l) {
			fmt.Fprintln(&b, "+", l)
		}
	}
	return b.String()
}
