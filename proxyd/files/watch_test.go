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
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// room is a shell, first process of a PID and a mount namespace, as a capsule's init is.
type room struct {
	pid int
	in  io.Writer
	out io.Reader
	end func()
}

func newRoom(t testing.TB, env ...string) *room {
	t.Helper()
	needRoot(t)
	buildTools(t)
	cmd := exec.Command("/bin/bash", "-c", "mount -t proc proc /proc && while read -r line; do eval \"$line\"; echo done; done")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID, Unshareflags: syscall.CLONE_NEWNS}
	cmd.Env = append([]string{"PATH=/usr/bin:/bin:/usr/sbin:/sbin"}, env...)
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	r := &room{pid: cmd.Process.Pid, in: in, out: out}
	r.end = sync.OnceFunc(func() { in.Close(); cmd.Process.Kill(); cmd.Wait() })
	t.Cleanup(r.end)
	r.runLine(t, ":")
	return r
}

func (r *room) watchedMounts() WatchedCapsule {
	return WatchedCapsule{PID: r.pid, PIDs: func() []int { return inNamespaceOf(r.pid) }}
}

// inNamespaceOf returns the processes in the PID namespace of init.
func inNamespaceOf(init int) (pids []int) {
	ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", init))
	entries, err2 := os.ReadDir("/proc")
	if err != nil || err2 != nil {
		return nil
	}
	for _, e := range entries {
		theirs, err := os.Readlink("/proc/" + e.Name() + "/ns/pid")
		if pid, notPID := strconv.Atoi(e.Name()); notPID == nil && err == nil && theirs == ns {
			pids = append(pids, pid)
		}
	}
	return pids
}

func (r *room) runLine(t testing.TB, line string) {
	t.Helper()
	fmt.Fprintln(r.in, line)
	b := make([]byte, 5)
	if _, err := io.ReadFull(r.out, b); err != nil || string(b) != "done\n" {
		t.Fatalf("%s: said %q, %v", line, b, err)
	}
}

// buildStatic builds testdata/static.c.
func buildStatic(t testing.TB) string {
	t.Helper()
	bin := filepath.Join(parent, "static")
	if out, err := exec.Command("cc", "-static", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-format-truncation", "-o", bin, "testdata/static.c").CombinedOutput(); err != nil {
		t.Skipf("SKIP: cannot link a static program here: %v: %s", err, out)
	}
	return bin
}

// drainChangeList returns the entries of the change list, after all reports of the kernel have been added.
func drainChangeList(t testing.TB, j *ChangeList, m Mark) TouchedFiles {
	t.Helper()
	if err := j.Drain(testDeadline(t)); err != nil {
		t.Fatal(err)
	}
	got, err := j.Since(m)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// waitForPath waits until the change list has a path.
func waitForPath(t *testing.T, j *ChangeList, kind Kind, path string, nudge func()) Entry {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		for _, e := range touchedSince(t, j, 0).Entries {
			if e.Path == path && e.Kind == kind {
				return e
			}
		}
		nudge()
	}
	t.Fatalf("%s is not in the change list: %s", path, describeEntries(touchedSince(t, j, 0).Entries))
	return Entry{}
}

// TestWatch: files of static programs are in the change list, whenever the programs began;
// as long as there are no such programs, closing a file tells no process.
func TestWatch(t *testing.T) {
	dir := ownFolder(t)
	static := buildStatic(t)
	j, env := changeListFor(t)
	buildTools(t)
	r := newRoom(t, env, "LD_PRELOAD="+programs.shim)
	ctx, cancel := context.WithCancel(testDeadline(t))
	ended := make(chan error, 1)
	go func() { ended <- Watch(ctx, r.watchedMounts(), j) }()

	in := func(name string) string { return filepath.Join(dir, name) }
	r.runLine(t, "/bin/echo x >"+in("libc"))
	for _, e := range touchedSince(t, j, 0).Entries {
		if e.Kind == Closed {
			t.Errorf("the kernel told of %s, which the shim does", e.Path)
		}
	}
	// The first of its kind is seen by chance, the next programs surely.
	waitForPath(t, j, Closed, in("static"), func() { r.runLine(t, static+" w "+in("static")+" data") })
	// Under which name depends on when the event is read.
	r.runLine(t, static+" s "+in("renamed")+" data")
	state := recordNow(t, nil, newShelf(), Job{}, drainChangeList(t, j, 0).Entries...)
	if f := state.Files[Name(in("renamed"))]; f == nil || f.Type != Regular || f.Size != 4 {
		t.Errorf("the renamed file was not found: %+v", f)
	}
	if state.Lost {
		t.Error("the State is Lost, want a complete list")
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Watch ended with %v, want context.Canceled", err)
	}

	// A successor does not see all changes that were made while no Watch ran.
	r.runLine(t, static+" w "+in("unseen")+" data")
	r.runLine(t, "LD_PRELOAD= /bin/sh -c 'exec 7>"+in("open")+"; sleep 60' & until test -e "+in("open")+"; do :; done")
	again, err := OpenChangeList(filepath.Dir(j.list.Name()), j.log.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	ctx, cancel = context.WithCancel(testDeadline(t))
	go func() { ended <- Watch(ctx, r.watchedMounts(), again) }()
	waitForPath(t, again, Closed, in("open"), func() {})
	r.runLine(t, static+" w "+in("seen")+" data")
	got := drainChangeList(t, again, 0)
	if s := describeEntries(got.Entries); !got.Lost || !strings.Contains(s, in("seen")) || strings.Contains(s, in("unseen")) {
		t.Errorf("list of a successor: lost %v, entries %s", got.Lost, s)
	}
	cancel()
	<-ended
}

// setWatcherFor gives a change list a watcher of a room's mounts, which is closed at the end of the test.
func setWatcherFor(t *testing.T, r *room, j *ChangeList) *watcher {
	t.Helper()
	w, err := newWatcher(r.watchedMounts(), j)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.closeWatch)
	j.setWatcher(w)
	return w
}

// TestNoteContainer: a file that is written on a mount is in the change list by its path in the capsule, also when the
// mount is as new as the program, when it is gone by the time at which the report is read, and when a later mount has
// its number.
func TestNoteContainer(t *testing.T) {
	dir := ownFolder(t)
	static := buildStatic(t)
	j, env := changeListFor(t)
	r := newRoom(t, env, "LD_PRELOAD="+programs.shim)
	setWatcherFor(t, r, j)
	at := filepath.Join(dir, "at")
	r.runLine(t, "mkdir "+at+" "+dir+"/src "+dir+"/src/in "+dir+"/in; mount --bind "+dir+"/in "+dir+"/in")
	for _, turn := range []string{"one", "two", "three"} {
		// A mount below, as a container has some.
		r.runLine(t, fmt.Sprintf("mount --bind %[1]s/src %[2]s && mount --bind %[1]s/in %[2]s/in", dir, at))
		if err := j.NoteContainer(); err != nil {
			t.Fatal(err)
		}
		r.runLine(t, fmt.Sprintf("%[1]s w %[2]s/%[3]s data w %[2]s/in/%[3]s data; umount -l %[2]s", static, at, turn))
		got := describeEntries(drainChangeList(t, j, 0).Entries)
		for _, want := range []string{at + "/" + turn, at + "/in/" + turn} {
			if !strings.Contains(got, want) {
				t.Errorf("%s is not in the change list: %s", want, got)
			}
		}
	}
	got := drainChangeList(t, j, 0)
	for _, e := range got.Entries {
		if name := filepath.Base(e.Path); e.Kind == Closed && name != ListName && !strings.HasPrefix(e.Path, at+"/") {
			t.Errorf("the change list names %s, want a path below the mount", e.Path)
		}
	}
	if got.Lost {
		t.Error("the change list is Lost, want a complete list")
	}
}

// TestNoteContainerWhileWaiting: a Watch that waits for events when a container is shown goes on.
func TestNoteContainerWhileWaiting(t *testing.T) {
	j, env := changeListFor(t)
	r := newRoom(t, env, "LD_PRELOAD="+programs.shim)
	w := setWatcherFor(t, r, j)
	ended := make(chan error)
	go func() {
		var err error
		for armed := false; err == nil && !armed; {
			armed = w.armed.Load()
			err = w.waitForEvents(testDeadline(t), time.Now().Add(time.Hour))
		}
		ended <- err
	}()
	if err := j.NoteContainer(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the wait for events ended with %v, want nil", err)
	}
}

// TestWatchWithoutShim: a program that is linked as others, and was started with another environment, is found by
// scanProcesses.
func TestWatchWithoutShim(t *testing.T) {
	dir := ownFolder(t)
	j, env := changeListFor(t)
	r := newRoom(t, env, "LD_PRELOAD="+programs.shim)
	r.runLine(t, "LD_PRELOAD= /bin/sleep 60 & until grep -q sleep /proc/$!/comm; do :; done")
	ctx, cancel := context.WithCancel(testDeadline(t))
	ended := make(chan error, 1)
	go func() { ended <- Watch(ctx, r.watchedMounts(), j) }()
	path := filepath.Join(dir, "sh")
	waitForPath(t, j, Closed, path, func() { r.runLine(t, "LD_PRELOAD= /bin/sh -c ': >"+path+"'") })
	cancel()
	<-ended
}

// TestWatchOverflow: when the kernel's queue of reports has overflowed, the change list says so, and so do the next
// States.
func TestWatchOverflow(t *testing.T) {
	if testing.Short() {
		t.Skip("makes more files than the kernel keeps events")
	}
	dir := ownFolder(t)
	static := buildStatic(t)
	j, env := changeListFor(t)
	r := newRoom(t, env, "LD_PRELOAD="+programs.shim)
	w := setWatcherFor(t, r, j)
	if err := w.markFiles(); err != nil {
		t.Fatal(err)
	}
	most, _ := os.ReadFile("/proc/sys/fs/fanotify/max_queued_events")
	n, _ := strconv.Atoi(strings.TrimSpace(string(most)))
	if n == 0 || n > 1<<17 {
		t.Skipf("SKIP: the kernel keeps %d events", n)
	}
	r.runLine(t, fmt.Sprintf("setpriv --reuid %[1]d --regid %[1]d --clear-groups %s n %s/f %d", testUID, static, dir, n+100))
	got := drainChangeList(t, j, 0)
	if len(got.Entries) < n-10 || !got.Lost {
		t.Errorf("%d entries, lost %v", len(got.Entries), got.Lost)
	}
	mark, err := j.Cut()
	if err != nil {
		t.Fatal(err)
	}
	r.runLine(t, static+" w "+dir+"/later data")
	if got = drainChangeList(t, j, mark); got.Lost || len(got.Entries) == 0 {
		t.Errorf("after the cut: %d entries, lost %v", len(got.Entries), got.Lost)
	}
	shelf := newShelf()
	before := recordNow(t, nil, shelf, Job{}, got.Entries...)
	before.Lost = true
	state := recordNow(t, before, shelf, Job{}, got.Entries...)
	if !state.Lost {
		t.Error("the State after a Lost State is not Lost")
	}
	report := putBackNow(t, state, shelf, Job{})
	if s := fmt.Sprint(report.Notes); !strings.Contains(s, "not complete") {
		t.Errorf("notes of PutBack %s, want one that the list is not complete", s)
	}
}

// TestWithoutShim: changes to files by a program that bypasses the shim after the cut are undone.
func TestWithoutShim(t *testing.T) {
	dir := ownFolder(t)
	static := buildStatic(t)
	j, env := changeListFor(t)
	r := newRoom(t, env, "LD_PRELOAD="+programs.shim)
	j.recordBypass()
	ctx, cancel := context.WithCancel(testDeadline(t))
	ended := make(chan error, 1)
	go func() { ended <- Watch(ctx, r.watchedMounts(), j) }()
	defer func() { cancel(); <-ended }()
	do := func(script string) {
		t.Helper()
		r.runLine(t, fmt.Sprintf("cd %[3]s; setpriv --reuid %[1]d --regid %[1]d --clear-groups %[2]s "+script, testUID, static, dir))
	}
	waitFor(t, func() bool { // until it is armed
		do("w first x")
		return strings.Contains(describeEntries(drainChangeList(t, j, 0).Entries), "first")
	})
	do("a log 1 w kept one w gone two w moved three s saved old m d - w d/in four w d/changed five s a1 1 s a2 2")
	do("f own 3750 f own/inner 711 w own/inner/f six")
	got := drainChangeList(t, j, 0)
	mark, err := j.Cut()
	if err != nil {
		t.Fatal(err)
	}
	got.Until = mark
	shelf := newShelf()
	state, err := Record(testDeadline(t), testUser, Job{}, nil, got, shelf)
	if err != nil {
		t.Fatal(err)
	}
	want := describeTree(t, dir)
	waitFor(t, func() bool { return time.Since(state.Time) > 20*time.Millisecond }) // births are dated by ticks

	do("d own/inner/f - u own/inner - u own -")
	do("a log 2 d gone - s saved new s saved newer s more x w d/changed other m e - m e/f - w e/f/deep y w short z d short - s a1 11 s a2 22")
	writeFile(t, filepath.Join(dir, "other"), "of another job")
	want = append(want, snapshotOf(t, dir, "other"))
	report, err := PutBack(testDeadline(t), testUser, Job{}, state, drainChangeList(t, j, mark), shelf)
	if err != nil {
		t.Fatal(err)
	}
	if d := differentLines(want, describeTree(t, dir)); d != "" {
		t.Errorf("%sreport %+v\n%s", d, report, describeEntries(touchedSince(t, j, mark).Entries))
	}
}

// snapshotOf returns a single line of a snapshot.
func snapshotOf(t *testing.T, dir, name string) string {
	t.Helper()
	for _, l := range describeTree(t, dir) {
		if strings.HasPrefix(l, name+" ") {
			return l
		}
	}
	t.Fatalf("no %s", name)
	return ""
}

// TestWatchEnds: Watch returns nil when the capsule is gone.
func TestWatchEnds(t *testing.T) {
	ownFolder(t)
	j, env := changeListFor(t)
	r := newRoom(t, env)
	ended := make(chan error, 1)
	go func() { ended <- Watch(testDeadline(t), r.watchedMounts(), j) }()
	fmt.Fprintln(r.in, "exit 0")
	io.Copy(io.Discard, r.out)
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("Watch does not end")
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
		return bypassesShim(f)
	}
	goroot, _ := exec.Command("go", "env", "GOROOT").Output()
	for path, want := range map[string]bool{
		"/bin/sh": false, "/usr/bin/python3": false, "/etc/passwd": false,
		"/lib64/ld-linux-x86-64.so.2": false, "/proc/self/exe": true,
		buildStatic(t): true, filepath.Join(strings.TrimSpace(string(goroot)), "bin/gofmt"): true,
	} {
		if got := verdict(path); got != want {
			t.Errorf("%s runs without the shim: %v", path, got)
		}
	}
}

// FuzzBypasses: any file is judged.
func FuzzBypasses(f *testing.F) {
	if b, err := os.ReadFile("/bin/true"); err == nil {
		f.Add(b)
	}
	f.Add([]byte("\x7fELF\x02\x01"))
	f.Fuzz(func(_ *testing.T, b []byte) { bypassesShim(bytes.NewReader(b)) })
}

// TestMountPoint: files at a mount are watched whatever a user has called the folder that is mounted there, or the place.
func TestMountPoint(t *testing.T) {
	for shown, want := range map[string]string{
		"/plain": "/plain", `/with\040space`: "/with space", "/form\ffeed": "/form\ffeed", "/no-break\u00a0space": "/no-break\u00a0space",
	} {
		at, id, ok := mountPoint("841 821 254:0 /home/a\fb " + shown + " rw,relatime master:1 - ext4 /dev/vda rw")
		if at != want || id != 841 || !ok {
			t.Errorf("mount point %q with the number %d, %v; want %q and 841", at, id, ok, want)
		}
	}
}
