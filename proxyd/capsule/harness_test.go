// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package capsule

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
	"github.com/singularity-slurm/singularity-slurm/proxyd/messagequeue"
	"github.com/singularity-slurm/singularity-slurm/tests/compiled"
)

// user is the user ID of programs. The machine needs no account with this ID.
const (
	user   = 12345
	groups = "12345,23456"

	rootUID = -1
)

// tools are the C programs of these tests, built once.
var tools struct{ dir, warden, enter, failed string }

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case Arg:
			os.Exit(Init(os.Args[2:]))
		case messagequeue.Arg:
			os.Exit(messagequeue.Run(os.Args[2:]))
		case attackArg:
			os.Exit(attackInit(os.Args[2:]))
		case makerArg:
			os.Exit(makeAndWait(os.Args[2:]))
		}
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	parent := "/var/lib" // not /tmp: a capsule has a /tmp of its own
	if os.Geteuid() != 0 {
		parent = ""
	}
	dir, err := os.MkdirTemp(parent, "capsule-tools-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	buildTools(dir)
	return m.Run()
}

// sanitized: WARDEN_SAN=1 puts the warden under the sanitizers.
var sanitized = os.Getenv("WARDEN_SAN") != "" //nolint:forbidigo // a test has no other argument

// withoutWarnings removes the sanitizers' warnings from before they have read their options.
func withoutWarnings(s string) string {
	if !sanitized {
		return s
	}
	return regexp.MustCompile(`==\d+==WARNING: reading executable name failed.*\n`).ReplaceAllString(s, "")
}

// buildTools builds the C programs, or takes them from CAPSULE_TOOLS on a machine that
// has no compiler.
func buildTools(dir string) {
	if given := os.Getenv("CAPSULE_TOOLS"); given != "" { //nolint:forbidigo // as above
		if out, err := exec.Command("cp", "-r", given+"/.", dir).CombinedOutput(); err != nil {
			tools.failed = fmt.Sprintf("%v: %s", err, out)
		}
		tools.dir, tools.warden, tools.enter = dir, filepath.Join(dir, "sing-warden"), filepath.Join(dir, "enter")
		return
	}
	tools.dir, tools.warden, tools.enter = dir, filepath.Join(dir, "sing-warden"), filepath.Join(dir, "enter")
	warden := []string{"make", "-s", "-C", "../../slurm-spank/warden", "O=" + dir}
	if sanitized {
		warden = append(warden, "SAN=1")
	}
	err := compiled.MakeFiles(dir, []string{"sing-warden"}, warden...)
	for _, name := range []string{"enter", "vfork"} {
		err = errors.Join(err, compiled.MakeFiles(dir, []string{name},
			"cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-o", filepath.Join(dir, name), "testdata/"+name+".c"))
	}
	if err != nil {
		tools.failed = err.Error()
	}
}

// needRoot skips a test on a machine without root.
func needRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIP: needs root: it makes namespaces and mounts")
	}
	if tools.failed != "" {
		t.Fatal("cannot build the warden: ", tools.failed)
	}
}

// testDeadline bounds every wait of a test.
func testDeadline(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// newCapsule makes a capsule that is removed at the end of the test.
func newCapsule(t testing.TB, change ...func(*Spec)) *Capsule {
	t.Helper()
	needRoot(t)
	s := Spec{Dir: filepath.Join(t.TempDir(), "capsule"), Hostname: "cap1", Owner: user, Cgroups: cgroupRoot(t)}
	for _, f := range change {
		f(&s)
	}
	c, err := Make(testDeadline(t), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if log, err := os.ReadFile(filepath.Join(s.Dir, logName)); err == nil && t.Failed() {
			t.Logf("init.log: %s", log)
		}
		c.Close()
		if err := Discard(context.Background(), s.Dir); err != nil {
			t.Error(err)
		}
	})
	return c
}

// cgroupRoot returns the mount point of this machine's cgroup v2 hierarchy.
func cgroupRoot(t testing.TB) string {
	t.Helper()
	root, err := CgroupRoot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// task is a command that the warden starts in c, like slurmstepd. If c is nil, the command is
// started directly.
type task struct {
	c        *Capsule
	name     string   // of the program
	options  []string // of the warden
	enter    []string // of enter
	wrap     []string // a command that runs enter
	bare     bool     // without the warden's options, which come in another way
	argv     []string
	uid      int // 0: user; rootUID: root
	dir      string
	env      []string
	in       io.Reader
	out, err *os.File
}

// wardenCommand returns the warden's command line, which precedes the program's.
func (k task) wardenCommand() []string {
	if k.bare {
		return []string{tools.warden}
	}
	name := k.name
	if name == "" {
		name = "batch"
	}
	return append(append([]string{tools.warden, "--name=" + name, "--proc-fd=700"}, k.options...), "--")
}

func (k task) taskCommand(t testing.TB) *exec.Cmd {
	t.Helper()
	uid := k.uid
	switch uid {
	case 0:
		uid = user
	case rootUID:
		uid = 0
	}
	var ns []*os.File
	argv := k.argv
	if k.c != nil {
		var err error
		if ns, err = k.c.Namespaces(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { localsock.CloseAll(ns) })
		argv = append(k.wardenCommand(), k.argv...)
	}
	args := append(append([]string{}, k.enter...), fmt.Sprint(len(ns)), fmt.Sprint(uid), fmt.Sprint(uid), groups)
	args = append(append(append([]string{}, k.wrap...), tools.enter), append(args, argv...)...)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.ExtraFiles = ns
	cmd.Dir, cmd.Env, cmd.Stdin = k.dir, k.env, k.in
	if k.out != nil {
		cmd.Stdout = k.out
	}
	if k.err != nil {
		cmd.Stderr = k.err
	}
	if cmd.Dir == "" {
		cmd.Dir = "/"
	}
	if cmd.Env == nil {
		cmd.Env = []string{"PATH=/usr/bin:/bin"}
	}
	return cmd
}

// runTask runs a task to its end.
func (k task) runTask(t testing.TB) (stdout, stderr string, status syscall.WaitStatus) {
	t.Helper()
	cmd := k.taskCommand(t)
	var out, errOut bytes.Buffer
	if cmd.Stdout == nil {
		cmd.Stdout = &out
	}
	if cmd.Stderr == nil {
		cmd.Stderr = &errOut
	}
	stop := context.AfterFunc(testDeadline(t), func() { cmd.Process.Kill() })
	defer stop()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	return out.String(), withoutWarnings(errOut.String()), cmd.ProcessState.Sys().(syscall.WaitStatus)
}

func devNull(t testing.TB) *os.File {
	t.Helper()
	f, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// running is a task that runs. A test reads its output line by line.
type running struct {
	t   testing.TB
	cmd *exec.Cmd
	out *lines
	in  io.WriteCloser
}

func (k task) startTask(t testing.TB) *running {
	t.Helper()
	return startCommand(t, k.taskCommand(t))
}

func startCommand(t testing.TB, cmd *exec.Cmd) *running {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = w
	if cmd.Stderr == nil {
		cmd.Stderr = os.Stderr
	}
	stdin, in, err := os.Pipe() // not StdinPipe, which Wait closes
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin = stdin
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	stdin.Close()
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		r.Close()
		in.Close()
	})
	return &running{t, cmd, newLines(t, r), in}
}

// waitForEnd returns the status with which the task ended.
func (r *running) waitForEnd() syscall.WaitStatus {
	r.t.Helper()
	stop := context.AfterFunc(testDeadline(r.t), func() { r.cmd.Process.Kill() })
	defer stop()
	r.cmd.Wait()
	return r.cmd.ProcessState.Sys().(syscall.WaitStatus)
}

func (r *running) sendSignal(sig syscall.Signal) {
	r.t.Helper()
	if err := r.cmd.Process.Signal(sig); err != nil {
		r.t.Fatal(err)
	}
}

// lines reads a pipe.
type lines struct {
	t    testing.TB
	f    *os.File
	rest []byte
}

func newLines(t testing.TB, f *os.File) *lines {
	if err := f.SetReadDeadline(time.Now().Add(60 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return &lines{t: t, f: f}
}

// nextLine returns the next line, and false at the end of the file.
func (l *lines) nextLine() (string, bool) {
	l.t.Helper()
	for {
		if i := bytes.IndexByte(l.rest, '\n'); i >= 0 {
			line := string(l.rest[:i])
			l.rest = l.rest[i+1:]
			return line, true
		}
		b := make([]byte, 4096)
		n, err := l.f.Read(b)
		l.rest = append(l.rest, b[:n]...)
		if err == io.EOF {
			return string(l.rest), false
		}
		if err != nil {
			l.t.Fatal(err)
		}
	}
}

// expectLine reads lines up to want. The test fails if the output ends before that line.
func (l *lines) expectLine(want string) {
	l.t.Helper()
	for {
		got, ok := l.nextLine()
		if got == want {
			return
		}
		if !ok {
			l.t.Fatalf("output ended before %q", want)
		}
	}
}

// readToEnd reads to the end of the file, which comes when no process holds the other end.
func (l *lines) readToEnd() []string {
	l.t.Helper()
	var all []string
	for {
		line, ok := l.nextLine()
		if line != "" {
			all = append(all, line)
		}
		if !ok {
			return all
		}
	}
}

// events watches a capsule.
type events struct {
	t    testing.TB
	ch   chan Event
	done chan error
	stop context.CancelFunc
}

func watchEvents(t testing.TB, c *Capsule) *events {
	t.Helper()
	ctx, cancel := context.WithCancel(testDeadline(t))
	e := &events{t, make(chan Event, 1024), make(chan error, 1), cancel}
	go func() { e.done <- c.Watch(ctx, func(ev Event) { e.ch <- ev }) }()
	t.Cleanup(cancel)
	return e
}

// nextEvent waits for an event of a kind, and skips events of other kinds.
func (e *events) nextEvent(k Kind) Event {
	e.t.Helper()
	for {
		select {
		case ev := <-e.ch:
			if ev.Kind == k {
				return ev
			}
		case err := <-e.done:
			e.t.Fatalf("watch ended before %q: %v", k, err)
		}
	}
}

// programNamed returns the present description of a program of the capsule, by name.
func programNamed(t testing.TB, c *Capsule, name string) Program {
	t.Helper()
	all, err := c.Programs(testDeadline(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if p.Name == name {
			return p
		}
	}
	t.Fatalf("no program %q among %v", name, all)
	return Program{}
}

// shellCommand returns the command line of a shell script.
func shellCommand(script string) []string { return []string{"/bin/bash", "-c", script} }

// waitForProgram waits until the watcher has an event of the program. All later events of the program reach the
// watcher.
func (e *events) waitForProgram(name string) Program {
	e.t.Helper()
	for {
		select {
		case ev := <-e.ch:
			if ev.Program.Name == name && (ev.Kind == Present || ev.Kind == Started || ev.Kind == Waiting) {
				return ev.Program
			}
		case err := <-e.done:
			e.t.Fatalf("watch ended before %q was seen: %v", name, err)
		}
	}
}

// namespacesOf returns the links of /proc/PID/ns, for the namespaces that capsules have.
func namespacesOf(pid string) map[string]bool {
	seen := map[string]bool{}
	for _, kind := range namespaces {
		if link, err := os.Readlink(filepath.Join("/proc", pid, "ns", kind)); err == nil {
			seen[link] = true
		}
	}
	return seen
}

// listMembers returns the host's PIDs of all processes in namespaces of c that the test is not in, init included.
func listMembers(t testing.TB, ns map[string]bool) []string {
	t.Helper()
	pids, err := readNames("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, pid := range pids {
		if pid[0] < '0' || pid[0] > '9' {
			continue
		}
		for link := range namespacesOf(pid) {
			if ns[link] {
				found = append(found, pid)
				break
			}
		}
	}
	return found
}

// ownNamespaces returns the namespaces that c does not share with the test.
func ownNamespaces(c *Capsule) map[string]bool {
	ns := namespacesOf(fmt.Sprint(c.PID()))
	for link := range namespacesOf("self") {
		delete(ns, link)
	}
	return ns
}

// statusField returns the last word of a line of /proc/PID/status.
func statusField(pid int, field string) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == field {
			return words[len(words)-1]
		}
	}
	return ""
}

// becomesEmpty waits until init is alone in c, with the test's time limit.
func becomesEmpty(t testing.TB, c *Capsule) {
	t.Helper()
	for {
		others := 0
		for _, member := range listMembers(t, ownNamespaces(c)) {
			var pid int
			if fmt.Sscan(member, &pid); pid == c.PID() {
				continue
			}
			others++
			if fd, err := openPidfd(pid); err == nil {
				if err := fd.wait(testDeadline(t)); err != nil {
					t.Fatalf("process %s does not end: %v", statusField(pid, "Name:"), err)
				}
				fd.close()
			}
		}
		if others == 0 {
			return
		}
	}
}
