// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// counting answers each line with a number, and has a child that does the same.
const counting = `
coproc (n=100; while read -r line; do echo "$line $((++n))"; done)
n=0; echo ready
while read -r line; do echo "$line" >&"${COPROC[1]}"; read -r other <&"${COPROC[0]}"; echo "$((++n)) $other"; done
echo end`

func TestShell(t *testing.T) {
	needCRIU(t)
	c := newCapsule(t)
	r := c.runBash(counting)
	r.expectLine("ready")
	r.askAndExpect("a", "1 a 101")
	dir := newImageFolder(t)
	img := dumpProgram(t, r.program, dir)
	r.askAndExpect("b", "2 b 102") // runs on
	c.endCapsule()

	b, err := json.Marshal(img)
	if err != nil {
		t.Fatal(err)
	}
	var kept Image
	if err := json.Unmarshal(b, &kept); err != nil {
		t.Fatal(err)
	}
	c, r = restoreImage(t, &kept, dir)
	r.askAndExpect("c", "2 c 102")
	if members, err := listMembers(c.initPID()); err != nil || members[r.program.PID].parent != c.initPID() {
		t.Errorf("the root is %+v, init is %d (%v)", members[r.program.PID], c.initPID(), err)
	}

	// And once more.
	dir = newImageFolder(t)
	img = dumpProgram(t, r.program, dir)
	if len(img.Processes) != 2 || img.Processes[0].Name != "bash" || img.Processes[1].Parent != img.Processes[0].PID {
		t.Errorf("processes in the image = %+v, want bash and its child", img.Processes)
	}
	c.endCapsule()
	_, r = restoreImage(t, img, dir)
	r.askAndExpect("d", "3 d 103")
	r.in.Close()
	if rest := r.readToEnd(); rest != "end\n" {
		t.Errorf("ended with %q", rest)
	}
}

func TestKinds(t *testing.T) {
	needCRIU(t)
	for name, script := range kinds {
		t.Run(name, func(t *testing.T) {
			work := workDir(t)
			c := newCapsule(t)
			r := c.runProgram("/usr/bin/python3", "-c", fmt.Sprintf("WORK = %q\n%s\n", work, script)+`
print('ready', flush=True)
while True:
    try: input()
    except EOFError: break
    print(check(), flush=True)
import os; print('end', flush=True); os._exit(0)`)
			r.expectLine("ready")
			r.writeLine("?")
			want := r.readLine()
			dir := newImageFolder(t)
			img := dumpProgram(t, r.program, dir)
			r.askAndExpect("?", want)
			c.endCapsule()

			c, r = restoreImage(t, img, dir)
			r.askAndExpect("?", want)
			dir = newImageFolder(t)
			img = dumpProgram(t, r.program, dir)
			c.endCapsule()
			_, r = restoreImage(t, img, dir)
			r.askAndExpect("?", want)
			r.in.Close()
			r.expectLine("end")
			t.Log(want)
		})
	}
}

// TestDumpLeavesFolders: a dump makes no file in the folders of removed open files, not even for a moment: the folders
// can be packed meanwhile.
func TestDumpLeavesFolders(t *testing.T) {
	needCRIU(t)
	c := newCapsule(t)
	r := c.runProgram("/usr/bin/python3", "-c", `
import os, socket, sys
kept = []
for d in '/tmp', '/dev/shm':
    os.mkdir(d + '/d'); f = open(d + '/d/gone', 'w+b'); f.write(b'x' * 100000); f.flush(); os.unlink(d + '/d/gone')
    s = socket.socket(socket.AF_UNIX); s.bind(d + '/d/socket'); s.listen(); os.mkfifo(d + '/d/fifo')
    g = open(d + '/d/removed', 'w'); os.unlink(d + '/d/removed'); os.rename(d + '/d', d + '/moved')
    kept += [f, s, g, os.open(d + '/moved/fifo', os.O_RDWR)]
print('ready', flush=True); sys.stdin.read()`)
	r.expectLine("ready")
	times := func() (all []time.Time) {
		for _, dir := range []string{"/tmp", "/tmp/moved", "/dev/shm", "/dev/shm/moved"} {
			st, err := os.Stat(fmt.Sprintf("/proc/%d/root%s", c.initPID(), dir))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, st.ModTime())
		}
		return all
	}
	before := times()
	dir := newImageFolder(t)
	img := dumpProgram(t, r.program, dir)
	if after := times(); !slices.Equal(after, before) {
		t.Errorf("changed: %v, were %v", after, before)
	}
	ghosts := 0
	for _, f := range img.Files {
		if strings.HasPrefix(f.Name, "ghost-file") {
			ghosts++
		}
	}
	if ghosts != 4 {
		t.Errorf("%d images of removed files: %+v", ghosts, img.Files)
	}
}

// workDir is a folder of the node that capsules see, for user.
func workDir(t testing.TB) string {
	t.Helper()
	// The folder of the test's binary is on a real file system. On an overlay, inotify cannot be dumped.
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(filepath.Dir(self), "criu-work-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chown(dir, user, user); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestStdio: input that a program has not read yet comes before the bytes of its new input, and files are opened by
// path.
func TestStdio(t *testing.T) {
	needCRIU(t)
	work := workDir(t)
	log := filepath.Join(work, "log")
	c := newCapsule(t)
	r := makePipes(t)
	pid := c.startProgram(order{Argv: []string{"/bin/bash", "-c", "echo start; read -r go <" + work + "/fifo; cat"}, Uid: user,
		Paths: [3]string{1: log, 2: log}, LastPID: 300}, makeFIFO(t, work, r.far[0]))
	p := Program{Init: c.initPID(), PID: pid, UID: user, GID: user, Stdio: r.pipeNames()}
	p.Stdio[1], p.Stdio[2] = log, log
	r.closeFar()
	r.writeLine("first")
	waitFor(t, func() bool { return readFile(t, log) == "start\n" })
	dir := newImageFolder(t)
	img := dumpProgram(t, p, dir)
	c.endCapsule()

	c = newCapsule(t)
	r = makePipes(t)
	r.writeLine("second")
	if err := Restore(testDeadline(t), img, Program{Init: c.initPID()}, [3]*os.File{r.far[0]}, dir); err != nil {
		explainTo(t, err)
		t.Fatal(err)
	}
	r.closeFar()
	r.writeLine("third")
	r.in.Close()
	if err := os.WriteFile(work+"/fifo", []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return strings.HasSuffix(readFile(t, log), "third\n") })
	if got := readFile(t, log); got != "start\nfirst\nsecond\nthird\n" {
		t.Errorf("the log is %q", got)
	}
}

// steward is a root as a capsule's programs have it, without a descriptor. Orphans fall to the steward. The code behind
// this text runs in its child.
const steward = `
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(36, 1); root = os.getpid()
pid = os.fork()
if pid:
    os.chdir('/'); os.closerange(0, 100); signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
    while True:
        signal.sigwaitinfo([signal.SIGCHLD])
        while True:
            try: p, s = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError: os._exit(0)
            if p == 0: break
            if p == pid: os._exit(os.waitstatus_to_exitcode(s))
os.setsid()
`

// TestSteward: the root is a subreaper after a restore; a child that the root has not reaped yet at the dump does no
// harm.
func TestSteward(t *testing.T) {
	needCRIU(t)
	c := newCapsule(t)
	r := c.runProgram("/usr/bin/python3", "-c", steward+`
print('ready', flush=True)
for line in sys.stdin:
    if os.fork() == 0:
        me = os.getpid()
        if os.fork() == 0:
            while os.getppid() == me: pass
            print(os.getppid() == root, flush=True)
        os._exit(0)
    os.wait()
`)
	r.expectLine("ready")
	r.askAndExpect("?", "True")
	dir := newImageFolder(t)
	img := dumpProgram(t, r.program, dir)
	c.endCapsule()
	_, r = restoreImage(t, img, dir)
	r.askAndExpect("?", "True")
}

// TestOrphan: after the end of its parent a process is the root's child, in a session that is not the root's; this is
// also so after a restore.
func TestOrphan(t *testing.T) {
	needCRIU(t)
	c := newCapsule(t)
	r := c.runProgram("/usr/bin/python3", "-c", steward+`
q = os.fork()
if q == 0:
    if os.fork() == 0: os.closerange(0, 3); signal.pause()
    os._exit(0)
os.waitpid(q, 0)
def orphan():
    for p in os.listdir('/proc'):
        if p.isdigit():
            f = open(f'/proc/{p}/stat').read().rsplit(')', 1)[1].split()
            if int(p) > root and int(f[1]) == root and int(p) != os.getpid(): return int(f[3]) == os.getsid(0)
print('ready', flush=True)
for line in sys.stdin: print(orphan(), flush=True)
`)
	r.expectLine("ready")
	r.askAndExpect("?", "True")
	dir := newImageFolder(t)
	img := dumpProgram(t, r.program, dir)
	if !img.hasReaper() {
		t.Errorf("no process was adopted by the reaper among %+v", img.Processes)
	}
	c.endCapsule()
	_, r = restoreImage(t, img, dir)
	r.askAndExpect("?", "True")
}

// TestSideBySide: the programs of a single capsule are dumped and restored at the same time.
func TestSideBySide(t *testing.T) {
	needCRIU(t)
	const n = 4
	c := newCapsule(t)
	var all [n]*running
	var dirs [n]folder
	var img [n]*Image
	for i := range all {
		all[i] = c.runBash(counting)
		all[i].expectLine("ready")
		dirs[i] = newImageFolder(t)
		for range i {
			all[i].writeLine("x")
			all[i].readLine()
		}
	}
	together := func(f func(i int)) {
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() { f(i) })
		}
		wg.Wait()
	}
	together(func(i int) {
		var err error
		if img[i], err = Dump(testDeadline(t), all[i].program, dirs[i]); err != nil {
			t.Error(err)
		}
	})
	if t.Failed() {
		return
	}
	c.endCapsule()
	c = newCapsule(t)
	for i := range all {
		all[i] = makePipes(t)
	}
	together(func(i int) {
		if err := Restore(testDeadline(t), img[i], Program{Init: c.initPID()}, all[i].far, dirs[i]); err != nil {
			t.Error(err)
		}
	})
	if t.Failed() {
		return
	}
	for i, r := range all {
		r.closeFar()
		r.askAndExpect("y", fmt.Sprintf("%d y %d", i+1, 101+i))
	}
}
