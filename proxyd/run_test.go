// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// makeShim returns a library that can be preloaded. Any library will do, because the program calls no function of the
// library.
func makeShim(t *testing.T) string {
	t.Helper()
	for _, pattern := range []string{"/lib/*/libdl.so.2", "/lib*/libdl.so.2", "/usr/lib*/libdl.so.2"} {
		if all, err := filepath.Glob(pattern); err == nil && len(all) > 0 {
			path, err := filepath.EvalSymlinks(all[0])
			if err != nil {
				t.Fatal(err)
			}
			return path
		}
	}
	t.Skip("no library to preload is found")
	return ""
}

// newProxyd is this program with arguments, and a folder of its own for temporary files.
func newProxyd(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), partVariable+"=1", "TMPDIR="+t.TempDir())
	return cmd
}

// temporaryFiles are the temporary files of a command.
func temporaryFiles(t *testing.T, cmd *exec.Cmd) []string {
	t.Helper()
	for _, v := range cmd.Env {
		if dir, ok := strings.CutPrefix(v, "TMPDIR="); ok && dir != os.Getenv("TMPDIR") {
			all, err := filepath.Glob(filepath.Join(dir, "*"))
			if err != nil {
				t.Fatal(err)
			}
			return all
		}
	}
	return nil
}

func TestRun(t *testing.T) {
	lib := makeShim(t)
	for _, tt := range []struct {
		name, script string
		env          []string
		code         int
		out, err     string // the whole standard output; the beginning of standard error
	}{
		{"status", "exit 7", nil, 7, "", ""},
		{"success", "echo hello", nil, 0, "hello\n", ""},
		{"signal", "kill -TERM $$", nil, 128 + 15, "", ""},
		{"standard input", "cat", nil, 0, "typed\n", ""},
		{"there is a socket", `test -S "$SINGULARITY_SLURM_DEVICE" && echo yes`, nil, 0, "yes\n", ""},
		{"only ours may enter it", `ls -ld "${SINGULARITY_SLURM_DEVICE%/*}" | cut -c 1-10`, nil, 0, "drwx------\n", ""},
		{"preloaded", `case $LD_PRELOAD in */proxyd-run-*/libdl*) echo yes;; *) echo "$LD_PRELOAD";; esac`, nil, 0, "yes\n", ""},
		{
			"the server has all devices",
			`for p in $(cat /proc/$PPID/task/*/children); do [ $p = $$ ] || tr '\0' '\n' < /proc/$p/environ | grep -c ^CUDA_VISIBLE_DEVICES; done; true`,
			[]string{"CUDA_VISIBLE_DEVICES=0"}, 0, "0\n", "",
		},
		{"a preloaded library stays", `echo "${LD_PRELOAD#*:}"`, []string{"LD_PRELOAD=" + lib}, 0, lib + "\n", ""},
		{"found as libcuda.so.1", `test -e "$LD_LIBRARY_PATH/libcuda.so.1" && echo yes`, nil, 0, "yes\n", ""},
		{"where libraries were found they are", `echo "${LD_LIBRARY_PATH#*:}"`, []string{"LD_LIBRARY_PATH=/opt/x:/opt/y"}, 0, "/opt/x:/opt/y\n", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cmd := newProxyd(t, "run", "--soft", "2", "--memory", "64M", "--shim", lib, "--", "sh", "-c", tt.script)
			cmd.Env = append(slices.DeleteFunc(cmd.Env, func(v string) bool { return strings.HasPrefix(v, "LD_") }), tt.env...)
			var out, errs bytes.Buffer
			cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader("typed\n"), &out, &errs
			_ = cmd.Run() // the test looks at the exit code
			if code := cmd.ProcessState.ExitCode(); code != tt.code || out.String() != tt.out || !beginsWith(errs.String(), tt.err) {
				t.Errorf("exit %d, want %d\n%s\n%s", code, tt.code, out.String(), errs.String())
			}
			if files := temporaryFiles(t, cmd); len(files) > 0 {
				t.Errorf("temporary files are left: %v", files)
			}
		})
	}
}

func TestRunNoProgram(t *testing.T) {
	cmd := newProxyd(t, "run", "--shim", makeShim(t), "--", "/nowhere/program")
	out, _ := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != 127 || !strings.HasPrefix(string(out), "proxyd: ") || len(temporaryFiles(t, cmd)) > 0 {
		t.Errorf("exit %d, temporary files %v\n%s", code, temporaryFiles(t, cmd), out)
	}
}

// startCommand starts a command and returns its output, from the second line on.
func startCommand(t *testing.T, cmd *exec.Cmd) *bufio.Reader {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	r := bufio.NewReader(out)
	if line, err := r.ReadString('\n'); err != nil {
		t.Fatalf("first line of the command = %q, %v", line, err)
	}
	return r
}

// TestRunSignals: a signal that is sent to proxyd reaches the program.
func TestRunSignals(t *testing.T) {
	script := `trap 'echo got; exit 3' USR1 TERM HUP; echo ready; while :; do sleep 0.05; done`
	for _, sig := range []unix.Signal{unix.SIGUSR1, unix.SIGTERM, unix.SIGHUP} {
		cmd := newProxyd(t, "run", "--shim", makeShim(t), "--", "sh", "-c", script)
		out := startCommand(t, cmd)
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		line, _ := io.ReadAll(out)
		cmd.Wait()
		if string(line) != "got\n" || cmd.ProcessState.ExitCode() != 3 || len(temporaryFiles(t, cmd)) > 0 {
			t.Errorf("%v: output %q, %v, temporary files %v; want got and exit 3", sig, line, cmd.ProcessState, temporaryFiles(t, cmd))
		}
	}
}

// serverOf finds the device server that a process has started.
func serverOf(t *testing.T, parent int) int {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		b, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(b), ") ")
		line, err := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		if f := strings.Fields(rest); err != nil || len(f) < 2 || f[1] != strconv.Itoa(parent) || !bytes.Contains(line, []byte("\x00device\x00")) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			t.Fatal(err)
		}
		return pid
	}
	t.Fatal("there is no device server")
	return 0
}

// TestRunServerDies: the end of the server is reported, and the exit status is still the program's.
func TestRunServerDies(t *testing.T) {
	cmd := newProxyd(t, "run", "--shim", makeShim(t), "--", "sh", "-c", `echo ready; read x; exit 5`)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	startCommand(t, cmd)
	if err := unix.Kill(serverOf(t, cmd.Process.Pid), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(said).ReadString('\n')
	if !strings.HasPrefix(line, "proxyd: the device server has died (signal: killed); ") {
		t.Errorf("line after the server's end = %q, %v", line, err)
	}
	if _, err := io.WriteString(in, "x\n"); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	if cmd.ProcessState.ExitCode() != 5 || len(temporaryFiles(t, cmd)) > 0 {
		t.Errorf("%v, temporary files %v are left", cmd.ProcessState, temporaryFiles(t, cmd))
	}
}

// TestRunKilled: a runner that is killed leaves no process and no file either: its device server
// notices the end.
func TestRunKilled(t *testing.T) {
	cmd := newProxyd(t, "run", "--shim", makeShim(t), "--", "sh", "-c", "echo ready; read x")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	startCommand(t, cmd)
	server, err := unix.PidfdOpen(serverOf(t, cmd.Process.Pid), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(server)
	cmd.Process.Kill()
	for {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(server), Events: unix.POLLIN}}, -1)
		if err == nil {
			break
		}
		if err != unix.EINTR {
			t.Fatal(err)
		}
	}
	in.Close()
	if files := temporaryFiles(t, cmd); len(files) > 0 {
		t.Errorf("temporary files are left: %v", files)
	}
}

// TestDevice: a device server listens when it reports ready, only one at a path, and ends with its lifeline or by a
// signal. Its socket is removed then.
func TestDevice(t *testing.T) {
	for _, how := range []string{"lifeline", "signal"} {
		t.Run(how, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "socket")
			told, ready, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer told.Close()
			theirs, lifeline, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer lifeline.Close()
			cmd := newProxyd(t, "device", "--socket", path, "--memory", "64M", "--ready", "3", "--lifeline", "4")
			cmd.Stderr = os.Stderr
			cmd.ExtraFiles = []*os.File{ready, theirs}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer cmd.Process.Kill()
			ready.Close()
			theirs.Close()
			if line, err := bufio.NewReader(told).ReadString('\n'); line != "ready\n" {
				t.Fatalf("message of the server = %q, %v; want ready", line, err)
			}
			c, err := net.Dial("unixpacket", path)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if out, err := newProxyd(t, "device", "--socket", path).CombinedOutput(); err == nil || !bytes.Contains(out, []byte("another process listens there already")) {
				t.Errorf("a second server at the socket: %v\n%s", err, out)
			}
			if how == "lifeline" {
				lifeline.Close()
			} else if err := cmd.Process.Signal(unix.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
			if _, err := os.Lstat(path); err == nil {
				t.Error("the server's socket is left")
			}
		})
	}
}

// TestDeviceAfterAKill: the socket of a server that was killed does not stop the next server; an ordinary file
// at its path does.
func TestDeviceAfterAKill(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "socket")
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	next, err := listenDevices(path)
	if err != nil {
		t.Fatal(err)
	}
	next.Close()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if l, err := listenDevices(path); err == nil {
		l.Close()
		t.Error("the server replaced a file that is no socket")
	}
	if l, err := listenDevices(filepath.Join(dir, strings.Repeat("x", 120))); err == nil {
		l.Close()
		t.Error("a socket name that is too long was accepted")
	}
}

// TestEndAnyway: a server that does not end when it is told to is killed; a server that ends in time is not.
func TestEndAnyway(t *testing.T) {
	told, tell := context.WithCancel(t.Context())
	over, ended := make(chan struct{}), make(chan struct{})
	tell()
	go endAnyway(told, 0, over, func() { close(ended) })
	<-ended
	close(over)
	endAnyway(told, time.Hour, over, func() { t.Error("a program that had ended was ended once more") })
	endAnyway(t.Context(), 0, over, func() { t.Error("a program that was not told to end was ended") })
}

// TestRunInRun: a program has the shim of the innermost run, and all other libraries that were
// preloaded.
func TestRunInRun(t *testing.T) {
	got := withoutShim([]string{"A=1", "LD_PRELOAD=/tmp/proxyd-run-1/libsingshim-device.so:/opt/libsingshim-device.so /opt/x.so"})
	if want := []string{"A=1", "LD_PRELOAD=/opt/libsingshim-device.so:/opt/x.so"}; !slices.Equal(got, want) {
		t.Errorf("withoutShim = %q, want %q", got, want)
	}
}
