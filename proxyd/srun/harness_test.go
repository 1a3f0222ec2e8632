// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package srun

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/tests/compiled"
)

// The user of these tests. Where there is Slurm he is alice of the minicluster.
const (
	user  = 1001
	group = 1001
)

// socketPath is the socket at which sing-srun looks for proxyd.
const socketPath = "/run/singularity-slurm/srun.sock"

// tools are the programs of these tests, built once.
var tools struct{ dir, srun, failed string }

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case Arg:
			os.Exit(Run(os.Args[2:]))
		case capsule.Arg:
			os.Exit(capsule.Init(os.Args[2:]))
		case starterArg:
			os.Exit(startAndWait(os.Args[2:]))
		case writerArg:
			os.Exit(writeMuch(os.Args[2:]))
		case stepdArg:
			os.Exit(waitForStepds())
		}
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	parent := "/var/lib" // not /tmp: a capsule does not see that of the node
	if os.Geteuid() != 0 {
		parent = ""
	}
	dir, err := os.MkdirTemp(parent, "srun-tools-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	tools.dir, tools.srun = dir, filepath.Join(dir, "srun") // srun says its name in its messages
	if err := errors.Join(makeTools(dir), os.Symlink("sing-srun", tools.srun)); err != nil {
		tools.failed = err.Error()
	}
	return m.Run()
}

// makeTools compiles sing-srun, or takes the programs from SRUN_TOOLS on a machine that has no compiler.
func makeTools(dir string) error {
	if given := os.Getenv("SRUN_TOOLS"); given != "" { //nolint:forbidigo // a test has no other argument
		if out, err := exec.Command("cp", "-r", given+"/.", dir).CombinedOutput(); err != nil {
			return fmt.Errorf("copy %s: %w: %s", given, err, out)
		}
		return nil
	}
	command := []string{"make", "-s", "-C", "../../slurm-spank/srun", "O=" + dir}
	if os.Getenv("SRUN_SAN") != "" { //nolint:forbidigo // as above
		command = append(command, "SAN=1")
	}
	return compiled.MakeFiles(dir, []string{"sing-srun"}, command...)
}

// needRoot skips a test that this machine cannot run.
func needRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIP: needs root: it starts processes as another user")
	}
	if tools.failed != "" {
		t.Fatal("cannot build sing-srun: ", tools.failed)
	}
}

// needSlurm skips a test outside of a node of a cluster.
func needSlurm(t testing.TB) {
	t.Helper()
	needRoot(t)
	if out, err := exec.Command("scontrol", "ping").CombinedOutput(); err != nil {
		t.Skipf("SKIP: needs a node of a Slurm cluster: %v %s", err, out)
	}
}

// needHangup skips a test of signals if a parent ignores SIGHUP, as nohup does: every process of the test inherits
// that.
func needHangup(t testing.TB) {
	t.Helper()
	if signal.Ignored(unix.SIGHUP) {
		t.Skip("SKIP: SIGHUP is ignored here, and so in all that is started (nohup?)")
	}
}

func testDeadline(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// server is proxyd's end of sing-srun's socket, as small as possible.
type server struct {
	t       testing.TB
	dir     string // of the sruns
	l       *net.UnixListener
	program string // the "real" srun
	mounts  *os.File
	cgroups []string
	clean   []string // StartSpec.Clean

	mu      sync.Mutex
	plan    func(RewriteParameters) RewriteParameters // changes the next srun's RewriteParameters
	refuse  string
	sruns   map[string]*Runner
	next    int
	asked   chan request // each request that has been handled
	stopped chan struct{}
}

type request struct {
	verb string
	keys map[string]string
	err  error
	run  *Runner
}

func newServer(t testing.TB, program string) *server {
	t.Helper()
	needRoot(t)
	s := &server{t: t, dir: t.TempDir(), program: program, sruns: map[string]*Runner{}, asked: make(chan request, 1000)}
	if err := os.MkdirAll(filepath.Dir(socketPath), 0o755); err != nil {
		t.Fatal(err)
	}
	s.listen()
	t.Cleanup(func() {
		s.stop()
		os.Remove(socketPath)
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, r := range s.sruns {
			if log, err := os.ReadFile(filepath.Join(r.Dir(), logName)); err == nil && len(log) > 0 {
				t.Logf("runner.log: %s", log)
			}
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			if err := r.Remove(ctx); err != nil {
				t.Error(err)
			}
			cancel()
		}
	})
	return s
}

func (s *server) listen() {
	os.Remove(socketPath)
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Net: "unixpacket", Name: socketPath})
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.Chmod(socketPath, 0o666); err != nil {
		s.t.Fatal(err)
	}
	s.l, s.stopped = l, make(chan struct{})
	go func(l *net.UnixListener, stopped chan struct{}) {
		defer close(stopped)
		for {
			c, err := l.AcceptUnix()
			if err != nil {
				return
			}
			req := s.handle(c)
			c.Close()
			s.asked <- req
		}
	}(l, s.stopped)
}

// watchFailedRequests puts a symbolic link to a missing file in the place of the socket. askedInVain tells whether a
// program has tried to connect since: the kernel then changes the link's time of access. The folder must not be mounted
// noatime.
func watchFailedRequests(t *testing.T) (askedInVain func() bool) {
	t.Helper()
	os.Remove(socketPath)
	if err := os.Symlink("missing", socketPath); err != nil {
		t.Fatal(err)
	}
	made := accessTime(t, socketPath)
	return func() bool { return accessTime(t, socketPath) != made }
}

// accessTime returns the time of the last access to a file or symbolic link.
func accessTime(t *testing.T, path string) unix.Timespec {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Atim
}

func (s *server) stop() {
	s.l.Close()
	<-s.stopped
}

func (s *server) handle(c *net.UnixConn) request {
	buf := make([]byte, 65536)
	var n, flags int
	var cred *unix.Ucred
	var err error
	raw, _ := c.SyscallConn()
	raw.Read(func(fd uintptr) bool {
		n, _, flags, _, err = unix.Recvmsg(int(fd), buf, nil, unix.MSG_PEEK|unix.MSG_DONTWAIT)
		return err != unix.EAGAIN
	})
	if err != nil {
		return request{err: err}
	}
	raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	words := strings.Split(strings.TrimSuffix(string(buf[:n]), "\x00"), "\x00")
	req := request{verb: words[0], keys: map[string]string{}, err: err}
	for _, w := range words[1:] {
		k, v, _ := strings.Cut(w, "=")
		req.keys[k] = v
	}
	if err != nil {
		return req
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case req.verb == "signal":
		var sig int
		fmt.Sscan(req.keys["signal"], &sig)
		req.run = s.sruns[req.keys["key"]]
		if req.run == nil {
			req.err = errors.New("no such srun")
			return req
		}
		req.err = req.run.Signal(ctx, syscall.Signal(sig))
	case req.verb != "srun" || flags&unix.MSG_CTRUNC == 0:
		req.err = fmt.Errorf("%q, or no files", req.verb)
	default:
		caller, err := callerOf(ctx, c, s.mounts, User{UID: cred.Uid, GID: cred.Gid})
		if err != nil {
			req.err = err
			return req
		}
		defer caller.Close(ctx)
		if s.refuse != "" {
			req.err = caller.Refuse(s.refuse)
			return req
		}
		req.run, req.err = s.start(ctx, req.keys["key"], cred, caller)
		if req.err != nil {
			caller.Refuse(req.err.Error())
		}
	}
	return req
}

// callerOf has a process receive the call that comes by a connection.
func callerOf(ctx context.Context, c *net.UnixConn, mounts *os.File, who User) (*Caller, error) {
	caller, err := NewCaller(mounts, who)
	if err != nil {
		return nil, err
	}
	raw, err := c.SyscallConn()
	if err == nil {
		raw.Control(func(fd uintptr) {
			err = unix.Sendmsg(int(caller.Connection().Fd()), []byte{0}, unix.UnixRights(int(fd)), nil, 0)
		})
	}
	if err == nil {
		err = caller.Hear(ctx)
	}
	if err != nil {
		caller.Close(ctx)
		return nil, err
	}
	return caller, nil
}

// newCaller makes a Caller with a call, as if a sing-srun had sent these files.
func newCaller(ctx context.Context, call []byte, stdin, stdout, stderr, status *os.File) (*Caller, error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(ends[0])
	f := os.NewFile(uintptr(ends[1]), "end")
	defer f.Close()
	described, err := unix.MemfdCreate("srun", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, err
	}
	defer unix.Close(described)
	if _, err := unix.Write(described, call); err != nil {
		return nil, err
	}
	if _, err := unix.FcntlInt(uintptr(described), unix.F_ADD_SEALS, needed); err != nil {
		return nil, err
	}
	rights := unix.UnixRights(int(stdin.Fd()), int(stdout.Fd()), int(stderr.Fd()), int(status.Fd()), described)
	if err := unix.Sendmsg(ends[0], []byte("srun"), rights, nil, 0); err != nil {
		return nil, err
	}
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return callerOf(ctx, c.(*net.UnixConn), nil, User{UID: user, GID: group})
}

// start is called with s.mu held.
func (s *server) start(ctx context.Context, key string, cred *unix.Ucred, caller *Caller) (*Runner, error) {
	if old := s.sruns[key]; old != nil {
		if err := old.Remove(ctx); err != nil {
			return nil, err
		}
	}
	if key == "" {
		s.next++
		key = fmt.Sprintf("s%d", s.next)
	}
	how := RewriteParameters{Key: key}
	if s.plan != nil {
		how = s.plan(how)
	}
	inherited, err := ReadInheritedLimits(int(cred.Pid))
	if err != nil {
		return nil, err
	}
	r, err := caller.Start(ctx, StartSpec{
		Dir: filepath.Join(s.dir, key), Program: s.program, Rewriting: how,
		UID: cred.Uid, GID: cred.Gid, Groups: []uint32{cred.Gid}, Inherited: inherited, Cgroups: s.cgroups, Clean: s.clean,
	})
	if err == nil {
		s.sruns[key] = r
	}
	return r, err
}

// expectRequest returns the next request, which must have gone well.
func (s *server) expectRequest(verb string) request {
	s.t.Helper()
	select {
	case r := <-s.asked:
		if r.verb != verb || r.err != nil {
			s.t.Fatalf("sing-srun's request is %q %v, error %v", r.verb, r.keys, r.err)
		}
		return r
	case <-time.After(60 * time.Second):
		s.t.Fatalf("no sing-srun has asked %q", verb)
		panic("not reached")
	}
}

// expectAfterSignals is expectRequest, and lets sing-srun pass signals on before.
func (s *server) expectAfterSignals(verb string) request {
	s.t.Helper()
	for {
		select {
		case r := <-s.asked:
			if r.verb == "signal" && r.err == nil {
				continue
			}
			if r.verb != verb || r.err != nil {
				s.t.Fatalf("sing-srun's request is %q %v, error %v", r.verb, r.keys, r.err)
			}
			return r
		case <-time.After(60 * time.Second):
			s.t.Fatalf("no sing-srun has asked %q", verb)
		}
	}
}

// caller calls sing-srun as the user.
type caller struct {
	args   []string
	env    []string
	dir    string
	in     io.Reader
	before []string // a command in front of sing-srun: "nice", "-n", "5"
}

func (c caller) newCommand() *exec.Cmd {
	argv := append(append(append([]string{}, c.before...), tools.srun), c.args...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.Dir, cmd.Stdin = c.env, c.dir, c.in
	if cmd.Env == nil {
		cmd.Env = []string{"PATH=/usr/bin:/bin"}
	}
	if cmd.Dir == "" {
		cmd.Dir = "/"
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: group}}
	return cmd
}

// runCall runs a call to its end.
func (c caller) runCall(t testing.TB) (stdout, stderr string, status syscall.WaitStatus) {
	t.Helper()
	cmd := c.newCommand()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	status = waitForCommand(t, cmd)
	return out.String(), errs.String(), status
}

// waitForCommand waits for a command, and kills the command when the time is up.
func waitForCommand(t testing.TB, cmd *exec.Cmd) syscall.WaitStatus {
	t.Helper()
	stop := context.AfterFunc(testDeadline(t), func() { cmd.Process.Kill() })
	defer stop()
	cmd.Wait()
	return cmd.ProcessState.Sys().(syscall.WaitStatus)
}

// exitCodeOf returns an exit code; a death by signal n is -n.
func exitCodeOf(how syscall.WaitStatus) int {
	if how.Signaled() {
		return -int(how.Signal())
	}
	return how.ExitStatus()
}

// environmentMap returns an environment as a map.
func environmentMap(env []string) map[string]string {
	m := map[string]string{}
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		m[name] = value
	}
	return m
}

func environmentList(env map[string]string) []string {
	var all []string
	for k := range maps.Keys(env) {
		all = append(all, k+"="+env[k])
	}
	return all
}

// waitFor polls until ok returns true, for conditions without an event.
func waitFor(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}
