// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestNamespace: files are those that the capsule sees, and the helper is no more than
// its user there.
func TestNamespace(t *testing.T) {
	dir := ownFolder(t)
	inner := ownFolder(t)
	writeFile(t, filepath.Join(inner, "f"), "the capsule's")
	writeFile(t, filepath.Join(dir, "f"), "the node's")
	cmd := exec.Command("sh", "-c", "mount --bind "+inner+" "+dir+" && mount -t proc proc /proc && echo ready && read x")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID, Unshareflags: syscall.CLONE_NEWNS}
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); cmd.Wait() }()
	if _, err := io.ReadFull(out, make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	shelf := newShelf()
	u := User{PID: cmd.Process.Pid, UID: testUID, GID: testUID, Groups: []uint32{testUID, 777}}
	p := filepath.Join(dir, "f")
	state, err := Record(testDeadline(t), u, Job{}, nil, TouchedFiles{Entries: []Entry{{Kind: Created, Path: p}}}, shelf)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(shelf.streams["files-1"]); got != "the capsule's" {
		t.Errorf("Record has saved %q, want the file of the capsule", got)
	}
	os.Remove(filepath.Join(inner, "f"))
	if _, err := PutBack(testDeadline(t), u, Job{}, state, TouchedFiles{}, shelf); err != nil {
		t.Fatal(err)
	}
	if got := readFile(t, filepath.Join(inner, "f")); got != "the capsule's" {
		t.Errorf("PutBack has written %q, want the file of the capsule", got)
	}
	if got := readFile(t, p); got != "the node's" {
		t.Errorf("the node's file is %q", got)
	}
	// Not there any more.
	if _, err := Record(testDeadline(t), User{PID: 1 << 22, UID: testUID}, Job{}, nil, TouchedFiles{}, shelf); err == nil {
		t.Error("recorded in a capsule that is not there")
	}
}

// TestScan: files open for writing and shared maps are found, with any kind of descriptor or map.
func TestScan(t *testing.T) {
	dir := ownFolder(t)
	cmd := exec.Command("python3", "-c", `
import mmap, os, sys
d = sys.argv[1]
w = open(d + "/w", "w"); a = open(d + "/a", "a"); r = open("/etc/passwd")
m = open(d + "/m", "w+"); m.truncate(4096); mm = mmap.mmap(m.fileno(), 4096); m.close()
p = open(d + "/private", "w+"); p.truncate(4096); q = mmap.mmap(p.fileno(), 4096, flags=mmap.MAP_PRIVATE); p.close()
gone = open(d + "/gone", "w"); os.unlink(d + "/gone"); tmp = open("/tmp/scan-%d" % os.getpid(), "w"); os.unlink(tmp.name)
odd = open(d + "/odd\n name", "w"); null = open("/dev/null", "w")
print("ready", flush=True); sys.stdin.read()`, dir)
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); cmd.Wait() }()
	io.ReadFull(out, make([]byte, 6))
	got, err := Scan([]int{cmd.Process.Pid, 1 << 22})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(got, func(a, b Entry) int { return strings.Compare(a.Path, b.Path) })
	// Python's mmap has duplicated the descriptor of m, which is open for writing then.
	want := fmt.Sprintf("\na %[1]s/a\nM %[1]s/m\nw %[1]s/odd\n name\nw %[1]s/private\nw %[1]s/w", dir)
	if s := describeEntries(got); s != want {
		t.Errorf("got%s\nwant%s", s, want)
	}
}

// TestHelperIsNotTraced: the user cannot trace the helper, although it runs as the user.
func TestHelperIsNotTraced(t *testing.T) {
	needRoot(t)
	h, err := startHelper(testDeadline(t), testUser, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { h.endHelper(context.Background(), io.EOF) }()
	if err := errors.Join(h.sendJSON(frameOrder, order{UID: testUID, GID: testUID}), h.flushFrames()); err != nil {
		t.Fatal(err)
	}
	dir := fmt.Sprintf("/proc/%d", h.cmd.Process.Pid)
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		b, _ := os.ReadFile(dir + "/status")
		if strings.Contains(string(b), fmt.Sprintf("Uid:\t%d\t%[1]d\t%[1]d\t%[1]d", testUID)) {
			if !strings.Contains(string(b), "CapEff:\t0000000000000000") || !strings.Contains(string(b), "CapPrm:\t0000000000000000") {
				t.Errorf("the helper has kept capabilities: %s", b)
			}
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the helper does not become the user: %s", b)
		}
	}
	cmd := exec.Command("cat", dir+"/environ", dir+"/maps")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: testUID, Gid: testUID}}
	if out, err := cmd.CombinedOutput(); err == nil {
		t.Errorf("the user reads it: %.100s", out)
	}
}
