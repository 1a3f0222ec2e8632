// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package life

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/wire"
	"github.com/singularity-slurm/singularity-slurm/tests/device/soft"
)

// The user of these tests, and another user.
const (
	user   = 12345
	group0 = 12346
	other  = 12347
)

// First arguments that make this test program play another program.
const (
	daemonArg  = "life-daemon"
	capsuleArg = "life-capsule"
	hostileArg = "life-hostile"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case daemonArg:
			os.Exit(beDaemon(os.Args[2], os.Args[3]))
		case capsuleArg:
			os.Exit(beCapsule(os.Args[2], os.Args[3], os.Args[4:]))
		case hostileArg:
			os.Exit(beHostile(os.Args[2:]))
		}
	}
	soft.Main(m)
}

// makeWorld makes the programs and folders that processes of other users can run with.
func makeWorld(t *testing.T) *soft.World {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIP: needs root: it starts processes as another user")
	}
	w := soft.Need(t)
	if err := os.Chmod(w.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return w
}

func testDeadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// makePublicFolder makes a folder that other users can read.
func makePublicFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "life")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// specOf returns the Spec of a server with two devices.
func specOf(t *testing.T, w *soft.World) Spec {
	t.Helper()
	return Spec{
		Dir: filepath.Join(t.TempDir(), "server"), Program: filepath.Join(w.Dir, "proxyd"), UID: user, GID: group0, Groups: []uint32{group0 + 10, group0 + 11},
		OOM: 7, Count: 2, Memory: "4G", Verbose: true,
	}
}

// startServer starts a server, which ends with the test.
func startServer(t *testing.T, spec Spec) *Server {
	t.Helper()
	s, err := Start(testDeadline(t), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { endServer(t, s) })
	return s
}

func endServer(t *testing.T, s *Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.End(ctx); err != nil {
		t.Error(err)
	}
}

// makeCgroup returns the path of a cgroup that a server may have; "" where the host lets tests make no cgroup.
func makeCgroup(t *testing.T) string {
	t.Helper()
	for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		dir := filepath.Join(root, fmt.Sprintf("sing-life-%d-%d", os.Getpid(), time.Now().UnixNano()))
		f, err := group(dir).makeGroup()
		if err == nil {
			f.Close()
			err = os.Remove(dir)
		}
		if err == nil {
			return dir
		}
		os.Remove(dir)
	}
	return ""
}

// logOf returns the text of a server's log.
func logOf(s *Server) string {
	b, _ := os.ReadFile(filepath.Join(s.dir, logName))
	return string(b)
}

// beDaemon starts a server, reports that on its standard output, and waits to be killed; with last, it kills
// itself after the step of that name.
func beDaemon(spec, last string) int {
	var s Spec
	if err := json.Unmarshal([]byte(spec), &s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	passed = func(step string) {
		if step == last {
			unix.Kill(os.Getpid(), unix.SIGKILL)
			select {}
		}
	}
	if _, err := Start(context.Background(), s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Fprintln(os.Stdout, "started")
	select {}
}

// startDaemon has another process start a server. It returns when that process has reported the server, or has
// died.
func startDaemon(t *testing.T, spec Spec, last string) *exec.Cmd {
	t.Helper()
	b, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("/proc/self/exe", daemonArg, string(b), last)
	var said bytes.Buffer
	c.Stderr = &said
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Process.Kill()
		c.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if last == "" && (err != nil || line != "started\n") {
		t.Fatalf("the daemon's line = %q, %v, want \"started\\n\"\n%s", line, err, &said)
	}
	return c
}

// beCapsule is PID 1 of a namespace in which the folder of a server's socket is mounted at another path, and
// then executes a program as the user.
func beCapsule(from, at string, argv []string) int {
	err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	if err == nil {
		err = unix.Mount(from, at, "", unix.MS_BIND, "")
	}
	if err == nil {
		err = errors.Join(syscall.Setgroups(nil), syscall.Setresgid(group0, group0, group0), syscall.Setresuid(user, user, user))
	}
	if err == nil {
		err = unix.Exec(argv[0], argv, append(os.Environ(), os.Getenv("INSIDE")))
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// program is a running program in a capsule.
type program struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr bytes.Buffer
}

// inCapsule compiles a C file and runs it as the user, with the devices of a server.
func inCapsule(t *testing.T, w *soft.World, s *Server, file string) *program {
	t.Helper()
	dir := makePublicFolder(t)
	at, path := filepath.Join(dir, "device"), filepath.Join(dir, "program")
	if err := os.Mkdir(at, 0o755); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(w.Compile(t, file, "-Itests/device/testdata"))
	if err == nil {
		err = os.WriteFile(path, b, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"libsingshim-device.so", "libcuda.so.1", "libnccl.so.2", "libnvidia-ml.so.1"} {
		if err := os.Symlink(filepath.Join(w.Dir, "libsingshim-device.so"), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	p := &program{cmd: exec.Command("/proc/self/exe", capsuleArg, s.SocketDir(), at, path)}
	p.cmd.Env = append(os.Environ(), "INSIDE=LD_PRELOAD="+filepath.Join(dir, "libsingshim-device.so"), "LD_LIBRARY_PATH="+dir,
		wire.DeviceEnv+"="+filepath.Join(at, socketName))
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID}
	p.cmd.Stderr = &p.stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		p.cmd.Wait()
	})
	return p
}

// readLine reads a line that the program prints.
func (p *program) readLine(t *testing.T) string {
	t.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil {
		p.cmd.Process.Kill()
		p.cmd.Wait()
		t.Fatalf("the program's next line: %q, %v\n%s", line, err, &p.stderr)
	}
	return strings.TrimSuffix(line, "\n")
}

// nextStep lets the program do its next step, and returns the line that it prints.
func (p *program) nextStep(t *testing.T) string {
	t.Helper()
	if _, err := io.WriteString(p.in, "\n"); err != nil {
		t.Fatal(err)
	}
	return p.readLine(t)
}

// serversLeft returns the PIDs of the processes that execute a program.
func serversLeft(t *testing.T, path string) []int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var all []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if link, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err == nil && link == path {
			all = append(all, pid)
		}
	}
	return all
}

// isNotThere tells whether the path does not exist.
func isNotThere(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}
