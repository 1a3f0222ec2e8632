// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server"
	"github.com/singularity-slurm/singularity-slurm/tests/device/soft"
)

// frozen is a program that CRIU dumps and restores, each time under a new device server.
type frozen struct {
	t            *testing.T
	w            *soft.World
	k            *keeper
	folder       string // of the devices' state
	images       string // of the program's
	socket, text string
	log          bytes.Buffer
	process      *os.Process
}

// startFreezable starts a program with a file as its output.
func startFreezable(t *testing.T, path string, args ...string) *frozen {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIP: needs root: CRIU does")
	}
	if _, err := exec.LookPath("criu"); err != nil {
		t.Skip("SKIP: ", err)
	}
	f := &frozen{t: t, w: soft.Need(t), images: t.TempDir(), text: filepath.Join(t.TempDir(), "text")}
	var env []string
	f.folder, f.socket, env = makePlace(t, f.w)
	var err error
	if f.k, err = startKeeper(f.w, f.socket, "0,1", &f.log); err != nil {
		t.Fatal(err, f.log.String())
	}
	out, err := os.OpenFile(f.text, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	c := exec.Command(f.w.Compile(t, path, "-D_GNU_SOURCE"), args...)
	c.Env, c.Stdout, c.Stderr = append(os.Environ(), env...), out, out
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	f.process = c.Process
	t.Cleanup(func() {
		if f.k != nil {
			_ = f.k.killServer()
		}
		if f.process != nil {
			_ = f.process.Kill()
			_, _ = f.process.Wait()
		}
	})
	return f
}

func (f *frozen) failWithLogs(args ...any) {
	f.t.Helper()
	text, _ := os.ReadFile(f.text)
	f.t.Fatalf("%s\nThe program printed:\n%s\nThe logs:\n%s", fmt.Sprintln(args...), text, &f.log)
}

// moveProgram saves, dumps and kills, restores the program with another device server, and lets the program go on. The result is false if the program
// has ended before.
func (f *frozen) moveProgram(n int) bool {
	f.t.Helper()
	ctx, folder := f.t.Context(), server.Folder(f.folder)
	s, err := f.k.saveJob(ctx, folder, n%2 == 1, byServer)
	if err != nil {
		f.failWithLogs(err)
	}
	defer s.close()
	if len(s.report.Processes) == 0 {
		c, err := f.k.connectController()
		if err != nil {
			f.failWithLogs(err)
		}
		defer c.Close()
		if err := c.Resume(ctx); err != nil {
			f.failWithLogs(err)
		}
		return !isGone(f.process.Pid)
	}
	pid := f.process.Pid
	f.runCriu("dump", "--tree", strconv.Itoa(pid))
	if _, err := f.process.Wait(); err != nil { // until then its PID is in use
		f.failWithLogs(err)
	}
	f.process = nil
	if err := f.k.killServer(); err != nil {
		f.failWithLogs(err)
	}
	f.k = nil
	f.runCriu("restore", "--restore-detached", "--restore-sibling")
	if f.process, err = os.FindProcess(pid); err != nil {
		f.failWithLogs(err)
	}
	if f.k, err = startKeeper(f.w, f.socket, []string{"1,0", "0,1"}[n%2], &f.log, "--await"); err != nil {
		f.failWithLogs(err)
	}
	if p := s.report.Processes[0]; n%2 == 0 { // else the server finds the process
		if s.mappings[p.ID], err = server.OpenHostMappings(pid, p); err != nil {
			f.failWithLogs(err)
		}
	}
	if err := f.k.restoreJob(ctx, folder, s); err != nil {
		f.failWithLogs(err)
	}
	return true
}

func (f *frozen) runCriu(args ...string) {
	f.t.Helper()
	args = append(args, "--no-default-config", "--images-dir", f.images, "-v3", "--log-file", "log")
	if out, err := exec.Command("criu", args...).CombinedOutput(); err != nil {
		log, _ := os.ReadFile(filepath.Join(f.images, "log"))
		f.failWithLogs(args[0], err, string(out), tailOf(log))
	}
}

// tailOf is the end of a log.
func tailOf(b []byte) string {
	const most = 4000
	return string(b[max(0, len(b)-most):])
}

// waitForEnd waits for the program, and returns the program's output.
func (f *frozen) waitForEnd() string {
	f.t.Helper()
	limit := time.AfterFunc(2*time.Minute, func() { _ = f.process.Kill() })
	defer limit.Stop()
	state, err := f.process.Wait()
	f.process = nil
	if err != nil || !state.Success() {
		f.failWithLogs(state, err)
	}
	text, err := os.ReadFile(f.text)
	if err != nil {
		f.failWithLogs(err)
	}
	return string(text)
}

// TestCRIU: a program with pinned memory that devices reach is dumped, killed and restored, three times, and so is its device server.
func TestCRIU(t *testing.T) {
	for _, name := range []string{"state_pinned", "state_graph_memory", "state_texture", "state_managed", "state_variables"} {
		t.Run(name, func(t *testing.T) {
			f := startFreezable(t, "testdata/"+name+".c")
			moves := 0
			for n := 0; moves < 3 && f.moveProgram(n); n++ {
				if text, err := os.ReadFile(f.text); err == nil && bytes.Count(text, []byte("\nstep ")) > moves {
					moves++ // the program has used its devices since the move
				}
			}
			got := f.waitForEnd()
			want := f.w.Run(t, soft.Program{Devices: 2, Path: f.w.Compile(t, "testdata/"+name+".c"), Limit: time.Minute})
			if got != want.Stdout {
				t.Errorf("the restored program printed\n%s, not\n%s", got, want.Stdout)
			}
			t.Logf("the program was restored %d times", moves)
		})
	}
}

// TestCRIUOrphan: a program that was restored notices that its device server is gone.
func TestCRIUOrphan(t *testing.T) {
	f := startFreezable(t, "testdata/parts/orphan.c", "as it is")
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		text, err := os.ReadFile(f.text)
		if err == nil && strings.Contains(string(text), "attached\n") {
			break
		}
		if time.Now().After(deadline) {
			f.failWithLogs(errors.Join(err, errors.New("it does not attach")))
		}
	}
	if !f.moveProgram(0) {
		f.failWithLogs("it has ended")
	}
	if err := f.k.killServer(); err != nil {
		f.failWithLogs(err)
	}
	f.k = nil
	if got := f.waitForEnd(); !strings.HasSuffix(got, "CUDA_ERROR_UNKNOWN\n") {
		t.Errorf("the program printed %q", got)
	}
}
