// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestCRIU: a program with the shim is dumped, other programs of its job change its files, the files are put back, and
// the program goes on in new namespaces with a new list, without a trace of the changes.
func TestCRIU(t *testing.T) {
	dir := ownFolder(t)
	if out, err := exec.Command("criu", "check").CombinedOutput(); err != nil {
		t.Skipf("SKIP: no CRIU that works here: %v: %.300s", err, out)
	}
	images := t.TempDir()
	base := "/run/files-test-" + strconv.Itoa(os.Getpid())
	list, log := filepath.Join(base, "files"), filepath.Join(dir, "journal")
	t.Cleanup(func() { os.RemoveAll(base) })
	open := func() *ChangeList {
		t.Helper()
		if err := CreateChangeList(list, testUID, testUID); err != nil {
			t.Fatal(err)
		}
		j, err := OpenChangeList(list, log)
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	j := open()
	env := Env + "=" + filepath.Join(list, ListName)
	buildTools(t)

	r := newRoom(t)
	// A single descriptor that stays open, one file after the other under its own name.
	program := "exec 7>" + dir + "/log; i=0; while :; do i=$((i+1)); echo $i >&7; echo $i >" + dir + "/file$i; sleep 0.02; done"
	r.runLine(t, "echo 300 >/proc/sys/kernel/ns_last_pid; "+
		"LD_PRELOAD="+programs.shim+" "+env+" setpriv --reuid 12345 --regid 12345 --clear-groups setsid bash -c '"+program+"' </dev/null >/dev/null 2>&1 7>&- &")
	last := func() int {
		n, _ := strconv.Atoi(lastLine(dir + "/log"))
		return n
	}
	waitFor(t, func() bool { return last() > 10 })
	runCriu(t, r.pid, images, "dump", "-t", "301")
	mark, err := j.Cut()
	if err != nil {
		t.Fatal(err)
	}
	shelf := newShelf()
	state, err := Record(testDeadline(t), testUser, Job{}, nil, touchedSince(t, j, 0), shelf)
	if err != nil || state.Mark != mark || len(state.Notes) > 0 {
		t.Fatalf("Record: %v, state %+v; want the mark of the cut and no notes", err, state)
	}
	at, want := last(), describeTree(t, dir)

	runAsUser(t, env, "/bin/bash", "-c", "cd "+dir+"; echo later >>log; echo later >file1; rm file2; mv file3 file-3; echo x >file"+strconv.Itoa(at+1))
	fmt.Fprintln(r.in, "exit 0")
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = open()
	defer j.Close()
	report, err := PutBack(testDeadline(t), testUser, Job{}, state, touchedSince(t, j, mark), shelf)
	if err != nil || len(report.Notes) > 0 {
		t.Fatalf("PutBack: %v, report %+v; want no notes", err, report)
	}
	// The log of the change list is in the same folder, for once.
	without := func(lines []string) (out []string) {
		for _, l := range lines {
			if !strings.HasPrefix(l, "journal ") {
				out = append(out, l)
			}
		}
		return out
	}
	if d := differentLines(without(want), without(describeTree(t, dir))); d != "" {
		t.Errorf("after PutBack the files differ: %sreport %+v", d, report)
	}
	if err := j.Rewind(mark, report.Made); err != nil {
		t.Fatal(err)
	}
	r = newRoom(t)
	runCriu(t, r.pid, images, "restore", "-d")
	waitFor(t, func() bool { return last() > at+10 })
	r.runLine(t, "kill -9 301")
	n := last()
	var lines []string
	for i := range n {
		lines = append(lines, strconv.Itoa(i+1))
	}
	if got := readFile(t, dir+"/log"); got != strings.Join(lines, "\n")+"\n" {
		t.Errorf("log of %d lines has a gap: %q", n, got)
	}
	got := describeEntries(touchedSince(t, j, mark).Entries)
	for i := at + 2; i < n; i++ {
		if !strings.Contains(got+"\n", fmt.Sprintf("\nc %s/file%d\n", dir, i)) {
			t.Errorf("file%d is not in the new list:%s", i, got)
			break
		}
	}
}

func lastLine(path string) string {
	b, _ := os.ReadFile(path)
	f := strings.Fields(string(b))
	if len(f) == 0 {
		return ""
	}
	return f[len(f)-1]
}

func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the program did not get there within 30 s")
		}
	}
}

// runCriu runs criu in the namespaces of pid.
func runCriu(t *testing.T, pid int, images string, args ...string) {
	t.Helper()
	argv := []string{"-t", strconv.Itoa(pid), "-m", "-p"}
	if args[0] == "dump" {
		argv = append(argv, "setpriv", "--ruid", strconv.Itoa(testUID), "--rgid", strconv.Itoa(testUID), "--keep-groups")
	}
	argv = append(argv, "criu")
	argv = append(argv, args...)
	argv = append(argv, "-D", images, "-o", args[0]+".log", "--network-lock", "skip")
	if args[0] == "restore" {
		argv = argv[:len(argv)-2]
	}
	out, err := exec.Command("nsenter", argv...).CombinedOutput()
	if err != nil {
		b, _ := os.ReadFile(filepath.Join(images, args[0]+".log"))
		var all []string
		for l := range strings.Lines(string(b)) {
			if strings.Contains(l, "Error") {
				all = append(all, l)
			}
		}
		t.Fatalf("criu failed: %v", errors.Join(err, errors.New(string(out)), errors.New(strings.Join(all, ""))))
	}
}
