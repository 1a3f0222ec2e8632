// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// room is a shell, first process of a PID and a mount namespace, as a capsule's init is.
type room struct {
	pid int
	in  io.Writer
	out io.Reader
}

func newRoom(t *testing.T, env ...string) *room {
	t.Helper()
	build(t)
	cmd := exec.Command("/bin/bash", "-c", "mount -t proc proc /proc && while read -r line; do eval \"$line\"; echo done; done")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID, Unshareflags: syscall.CLONE_NEWNS}
	cmd.Env = append([]string{"PATH=/usr/bin:/bin:/usr/sbin:/sbin"}, env...)
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Process.Kill(); cmd.Wait() })
	r := &room{cmd.Process.Pid, in, out}
	r.do(t, ":")
	return r
}

func (r *room) do(t *testing.T, line string) {
	t.Helper()
	fmt.Fprintln(r.in, line)
	b := make([]byte, 5)
	if _, err := io.ReadFull(r.out, b); err != nil || string(b) != "done\n" {
		t.Fatalf("%s: said %q, %v", line, b, err)
	}
}

// buildStatic builds a program that writes a file, or replaces it by a renamed one.
func buildStatic(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(parent, "static")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, "write")
	src := filepath.Join(dir, "write.c")
	code := `#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
int main(int c, char **v) {
	char tmp[4096];
	snprintf(tmp, sizeof(tmp), "%s.tmp", v[1]);
	int fd = open(c > 2 ? tmp : v[1], O_WRONLY | O_CREAT, 0644);
	if (write(fd, "data", 4) != 4) return 1;
	close(fd);
	return c > 2 ? rename(tmp, v[1]) : 0;
}`
	if err := os.WriteFile(src, []byte(code), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cc", "-static", "-o", bin, src).CombinedOutput(); err != nil {
		t.Skipf("SKIP: cannot link a static program here: %v: %s", err, out)
	}
	return bin
}

// eventually waits until the journal has a path.
func eventually(t *testing.T, j *Journal, kind Kind, path string, nudge func()) Entry {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		for _, e := range since(t, j, 0).Entries {
			if e.Path == path && e.Kind == kind {
				return e
			}
		}
		nudge()
	}
	t.Fatalf("%s is not in the journal: %s", path, describe(since(t, j, 0).Entries))
	return Entry{}
}

// TestWatch: files of static programs are in the journal, whenever these began; as long
// as there are none, closing a file tells nobody.
func TestWatch(t *testing.T) {
	dir := ours(t)
	static := buildStatic(t)
	j, env := journalFor(t)
	build(t)
	r := newRoom(t, env, "LD_PRELOAD="+programs.shim)
	ctx, cancel := context.WithCancel(deadline(t))
	ended := make(chan error, 1)
	go func() { ended <- Watch(ctx, Watched{PID: r.pid}, j) }()

	in := func(name string) string { return filepath.Join(dir, name) }
	r.do(t, "/bin/echo x >"+in("libc"))
	for _, e := range since(t, j, 0).Entries {
		if e.Kind == Closed {
			t.Errorf("the kernel told of %s, which the shim does", e.Path)
		}
	}
	// The first of its kind is seen by chance, the next ones surely.
	eventually(t, j, Closed, in("static"), func() { r.do(t, static+" "+in("static")) })
	// Under which name depends on when the event is read.
	r.do(t, static+" "+in("renamed")+" tmp")
	var e Entry
	for e.Path == "" {
		for _, x := range since(t, j, 0).Entries {
			if x.Kind == Closed && strings.HasPrefix(x.Path, in("renamed")) {
				e = x
			}
		}
		if ctx.Err() != nil {
			t.Fatal("the renamed file is not in the journal")
		}
	}
	e.Path = in("renamed.tmp")
	state := recordNow(t, nil, newShelf(), Job{}, e)
	if f := state.Files[Name(in("renamed"))]; f == nil || f.Ino != e.Ino || f.Size != 4 {
		t.Errorf("the renamed file was not found: %+v", f)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}

	// A second Watch learns of what runs already.
	r.do(t, "exec 7>"+in("open"))
	r.do(t, "LD_PRELOAD= /bin/sleep 60 & until grep -q sleep /proc/$!/comm; do :; done")
	ctx, cancel = context.WithCancel(deadline(t))
	go func() { ended <- Watch(ctx, Watched{PID: r.pid}, j) }()
	eventually(t, j, Closed, in("sh"), func() { r.do(t, "LD_PRELOAD= /bin/sh -c ': >"+in("sh")+"'") })
	cancel()
	<-ended
}

// TestWatchEnds: Watch returns nil when the capsule is gone.
func TestWatchEnds(t *testing.T) {
	ours(t)
	j, env := journalFor(t)
	r := newRoom(t, env)
	ended := make(chan error, 1)
	go func() { ended <- Watch(deadline(t), Watched{PID: r.pid}, j) }()
	fmt.Fprintln(r.in, "exit 0")
	io.Copy(io.Discard, r.out)
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("Watch goes on")
	}
}

// TestBypasses: which programs go through the shim.
func TestBypasses(t *testing.T) {
	needRoot(t)
	verdict := func(path string) bool {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		return bypasses(f)
	}
	goroot, _ := exec.Command("go", "env", "GOROOT").Output()
	for path, want := range map[string]bool{
		"/bin/sh": false, "/usr/bin/python3": false, "/etc/passwd": false,
		"/lib64/ld-linux-x86-64.so.2": false, "/proc/self/exe": true,
		buildStatic(t): true, filepath.Join(strings.TrimSpace(string(goroot)), "bin/gofmt"): true,
	} {
		if got := verdict(path); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
}

// FuzzBypasses: any file is judged.
func FuzzBypasses(f *testing.F) {
	if b, err := os.ReadFile("/bin/true"); err == nil {
		f.Add(b)
	}
	f.Add([]byte("\x7fELF\x02\x01"))
	f.Fuzz(func(_ *testing.T, b []byte) { bypasses(bytes.NewReader(b)) })
}
