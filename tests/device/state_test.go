// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/tests/device/soft"
)

// A device server as its parent sees it: its process, and the socket over which it is told what to do.
type keeper struct {
	cmd     *exec.Cmd
	control *os.File
}

// keep starts a device server with two devices, in this order, from what was saved to a folder, "": anew.
func keep(w *soft.World, socket, restore, order string, stderr io.Writer) (*keeper, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	k := &keeper{control: os.NewFile(uintptr(fds[0]), "control")}
	theirs := os.NewFile(uintptr(fds[1]), "control")
	defer theirs.Close()
	told, ready, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer told.Close()
	args := []string{"device", "--socket", socket, "--soft", "2", "--memory", "4G", "--ready", "3", "--control", "4", "--order", order}
	if restore != "" {
		args = append(args, "--restore", restore)
	}
	k.cmd = exec.Command(filepath.Join(w.Dir, "proxyd"), args...)
	k.cmd.Stderr = stderr
	k.cmd.ExtraFiles = []*os.File{ready, theirs}
	err = k.cmd.Start()
	ready.Close()
	if err != nil {
		return nil, err
	}
	if _, err := bufio.NewReader(told).ReadString('\n'); err != nil {
		return nil, errors.Join(fmt.Errorf("a device server that does not start: %w", err), k.kill())
	}
	return k, nil
}

// kill ends it as a fault would.
func (k *keeper) kill() error {
	err := errors.Join(k.cmd.Process.Kill(), k.control.Close())
	_ = k.cmd.Wait() // it was killed
	return err
}

// saved is what it says of a save.
type saved struct {
	Processes []struct {
		ID  uint64 `json:"id"`
		PID int    `json:"pid"`
	} `json:"processes"`
	Written uint64 `json:"written"`
	Known   uint64 `json:"known"`
}

// tell gives an order, with a file unless it is nil, and returns what it says and sends back.
func (k *keeper) tell(order string, with *os.File) (*saved, *os.File, error) {
	var rights []byte
	if with != nil {
		rights = unix.UnixRights(int(with.Fd()))
	}
	fd := int(k.control.Fd())
	if err := unix.Sendmsg(fd, []byte(order+"\n"), rights, nil, 0); err != nil {
		return nil, nil, err
	}
	b, oob := make([]byte, 1<<17), make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := unix.Recvmsg(fd, b, oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil || n == 0 {
		return nil, nil, fmt.Errorf("%s: no answer: %w", order, err)
	}
	var reply struct {
		Error  string `json:"error"`
		Report *saved `json:"report"`
	}
	if err := json.Unmarshal(b[:n], &reply); err != nil {
		return nil, nil, err
	}
	if reply.Error != "" {
		return nil, nil, fmt.Errorf("%s: %s", order, reply.Error)
	}
	var f *os.File
	if oobn > 0 {
		messages, err := unix.ParseSocketControlMessage(oob[:oobn])
		if err != nil {
			return nil, nil, err
		}
		fds, err := unix.ParseUnixRights(&messages[0])
		if err != nil {
			return nil, nil, err
		}
		f = os.NewFile(uintptr(fds[0]), "ring")
	}
	return reply.Report, f, nil
}

// replace saves, kills and replaces a device server under its program. Every other time the devices are others.
func (k *keeper) replace(w *soft.World, socket, folder string, n int, stderr io.Writer) (*keeper, error) {
	what, _, err := k.tell(fmt.Sprintf(`{"do":"save","folder":%q,"again":%v,"within":60000000000}`, folder, n%2 == 1), nil)
	if err != nil {
		return k, err
	}
	rings := map[uint64]*os.File{}
	for _, p := range what.Processes {
		_, f, err := k.tell(fmt.Sprintf(`{"do":"ring","process":%d}`, p.ID), nil)
		if err != nil {
			return k, err
		}
		defer f.Close()
		// Root finds a ring in the process's maps.
		if os.Geteuid() != 0 || n%3 != 2 {
			rings[p.ID] = f
		}
	}
	if err := k.kill(); err != nil {
		return nil, err
	}
	next, err := keep(w, socket, folder, []string{"1,0", "0,1"}[n%2], stderr)
	if err != nil {
		return nil, err
	}
	for _, p := range what.Processes {
		if _, _, err := next.tell(fmt.Sprintf(`{"do":"adopt","process":%d,"pid":%d}`, p.ID, p.PID), rings[p.ID]); err != nil && !isGone(p.PID) {
			return next, err
		}
	}
	_, _, err = next.tell(`{"do":"resume"}`, nil)
	return next, err
}

// isGone tells whether a process has ended.
func isGone(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || bytes.Contains(b, []byte(") Z "))
}

// strikes is how often a device server is replaced under one program at most.
const strikes = 12

// moved runs a program while its device server is replaced at random moments, and returns what it printed, and how often.
func moved(t *testing.T, w *soft.World, seed uint64, path string, args ...string) (string, int) {
	t.Helper()
	dir := t.TempDir()
	folder, libs, socket := filepath.Join(dir, "state"), filepath.Join(dir, "lib"), filepath.Join(dir, "device")
	for _, d := range []string{folder, libs} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"libsingshim-device.so", "libcuda.so.1", "libnccl.so.2", "libnvidia-ml.so.1"} {
		if err := os.Symlink(filepath.Join(w.Dir, "libsingshim-device.so"), filepath.Join(libs, name)); err != nil {
			t.Fatal(err)
		}
	}
	var log, stdout, stderr bytes.Buffer
	k, err := keep(w, socket, "", "0,1", &log)
	if err != nil {
		t.Fatal(err, log.String())
	}
	defer func() {
		if k != nil {
			_ = k.kill()
		}
	}()
	c := exec.Command(path, args...)
	c.Env = append(os.Environ(), "LD_PRELOAD="+filepath.Join(libs, "libsingshim-device.so"), "LD_LIBRARY_PATH="+libs, "SINGULARITY_SLURM_DEVICE="+socket)
	c.Stdin = strings.NewReader("one\ntwo\nthree\nquit\n")
	c.Stdout, c.Stderr = &stdout, &stderr
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	r := rand.New(rand.NewPCG(seed, 1))
	limit := time.After(2 * time.Minute)
	for n := 0; ; n++ {
		strike := time.After(time.Duration(r.Int64N(int64(120 * time.Millisecond))))
		if n == strikes {
			strike = nil
		}
		select {
		case err := <-ended:
			if err != nil {
				t.Fatalf("%v after %d replacements\n%s\n%s\n%s", err, n, &stdout, &stderr, &log)
			}
			return stdout.String(), n
		case <-limit:
			_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
			<-ended
			t.Fatalf("it did not end, after %d replacements\n%s\n%s\n%s", n, &stdout, &stderr, &log)
		// Not what the test waits for: when it strikes.
		case <-strike:
		}
		if k, err = k.replace(w, socket, folder, n, &log); err != nil {
			_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
			<-ended
			t.Fatalf("replacement %d: %v\n%s\n%s\n%s", n, err, &stdout, &stderr, &log)
		}
	}
}

// TestReplaced: programs whose device server is saved, killed and replaced under them print what they print undisturbed.
func TestReplaced(t *testing.T) {
	w := soft.Need(t)
	files, err := filepath.Glob("testdata/state_*.c")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".c"), func(t *testing.T) {
			path := w.Compile(t, file)
			want := w.Run(t, soft.Program{Devices: 2, Path: path, Limit: time.Minute})
			if want.Exit != 0 {
				t.Fatalf("undisturbed, it ends with %d\n%s\n%s", want.Exit, want.Stdout, want.Stderr)
			}
			seeds := []uint64{1, 2}
			if testing.Short() {
				seeds = seeds[:1]
			}
			for _, seed := range seeds {
				got, n := moved(t, w, seed, path)
				if got != want.Stdout {
					t.Errorf("seed %d, after %d replacements it printed\n%s, not\n%s", seed, n, got, want.Stdout)
				}
				t.Logf("seed %d: %d replacements", seed, n)
			}
		})
	}
}
