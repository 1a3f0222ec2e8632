// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server"
	"github.com/singularity-slurm/singularity-slurm/tests/device/soft"
)

// A keeper is the parent's side of a device server: its process, and the socket for orders.
type keeper struct {
	cmd     *exec.Cmd
	control string
	last    string // the save from which the server was restored
}

// startKeeper starts a device server with two devices, in this order, and with more arguments.
func startKeeper(w *soft.World, socket, order string, stderr io.Writer, more ...string) (*keeper, error) {
	k := &keeper{control: socket + "-control"}
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: k.control, Net: "unixpacket"})
	if err != nil {
		return nil, err
	}
	defer l.Close() // the listener goes on in the server
	l.SetUnlinkOnClose(false)
	theirs, err := l.File()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	told, ready, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer told.Close()
	args := []string{"device", "--socket", socket, "--soft", "2", "--memory", "4G", "--ready", "3", "--control", "4", "--order", order}
	k.cmd = exec.Command(filepath.Join(w.Dir, "proxyd"), append(args, more...)...)
	k.cmd.Stderr = stderr
	k.cmd.ExtraFiles = []*os.File{ready, theirs}
	err = k.cmd.Start()
	ready.Close()
	if err != nil {
		return nil, err
	}
	if _, err := bufio.NewReader(told).ReadString('\n'); err != nil {
		return nil, errors.Join(fmt.Errorf("a device server that does not start: %w", err), k.killServer())
	}
	return k, nil
}

// killServer ends the device server as a fault would.
func (k *keeper) killServer() error {
	err := errors.Join(k.cmd.Process.Kill(), os.Remove(k.control))
	_ = k.cmd.Wait() // the server was killed
	return err
}

// connectController makes a connection for orders.
func (k *keeper) connectController() (*server.Controller, error) {
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: k.control, Net: "unixpacket"})
	if err != nil {
		return nil, err
	}
	return server.NewController(conn), nil
}

// saved has a server's report of its save, and the mappings that its processes must bring.
type saved struct {
	report   *server.Report
	mappings map[uint64][]*os.File
}

// close may be called on nil.
func (s *saved) close() {
	if s == nil {
		return
	}
	for _, all := range s.mappings {
		for _, f := range all {
			f.Close()
		}
	}
}

// Which process hands a program's mappings to the next device server.
const (
	byServer  = iota // the next server takes them, if the server is root's
	byParent         // the parent of the servers, as root
	byThisOne        // the server that was saved
	ways
)

// saveJob has the job stopped and saved.
func (k *keeper) saveJob(ctx context.Context, folder server.Folder, again bool, way int) (*saved, error) {
	c, err := k.connectController()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	o := server.SaveOptions{}
	if again {
		o.Upon = k.last
	}
	r, err := c.Save(ctx, folder, o)
	if err != nil {
		return nil, err
	}
	s := &saved{report: r, mappings: map[uint64][]*os.File{}}
	for _, p := range r.Processes {
		switch way {
		case byParent:
			s.mappings[p.ID], err = server.OpenHostMappings(p.PID, p)
		case byThisOne:
			s.mappings[p.ID], err = c.FetchHostMappings(ctx, p.ID, len(p.HostMappings))
		}
		if err != nil && !isElsewhere(p.PID, err) {
			return s, err
		}
	}
	return s, nil
}

// restoreJob has the server build the saved state, and lets the job go on.
func (k *keeper) restoreJob(ctx context.Context, folder server.Folder, s *saved) error {
	c, err := k.connectController()
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.Restore(ctx, folder); err != nil {
		return err
	}
	k.last = s.report.ID
	for _, p := range s.report.Processes {
		if err := c.Adopt(ctx, p.ID, p.PID, s.mappings[p.ID]); err != nil && !isElsewhere(p.PID, err) {
			return err
		}
	}
	return c.Resume(ctx)
}

// replaceServer saves, kills and replaces a device server under its program. Each time the devices are other ones, or a
// single one. While there is no server, meanwhile is called.
func (k *keeper) replaceServer(ctx context.Context, w *soft.World, socket, folder string, n int, stderr io.Writer, meanwhile func()) (*keeper, error) {
	way := byThisOne
	if os.Geteuid() == 0 {
		way = n % ways
	}
	s, err := k.saveJob(ctx, server.Folder(folder), n%2 == 1, way)
	defer s.close()
	if err != nil {
		return k, err
	}
	if err := k.killServer(); err != nil {
		return nil, err
	}
	meanwhile()
	next, err := startKeeper(w, socket, []string{"1,0", "0,0", "0,1", "1,1"}[n%4], stderr, "--await")
	if err != nil {
		return nil, err
	}
	return next, next.restoreJob(ctx, server.Folder(folder), s)
}

// isGone tells whether a process has ended.
func isGone(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || bytes.Contains(b, []byte(") Z "))
}

// isElsewhere tells whether a process has ended, or executed another program: a process that does not use its device is not stopped.
func isElsewhere(pid int, err error) bool {
	return isGone(pid) || strings.Contains(err.Error(), "it has no ring")
}

// makePreloadFolder makes a folder of the libraries that programs are to find.
func makePreloadFolder(t *testing.T, w *soft.World, libs string) {
	t.Helper()
	if err := os.Mkdir(libs, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"libsingshim-device.so", "libcuda.so.1", "libnccl.so.2", "libnvidia-ml.so.1"} {
		if err := os.Symlink(filepath.Join(w.Dir, "libsingshim-device.so"), filepath.Join(libs, name)); err != nil {
			t.Fatal(err)
		}
	}
}

// environmentFor returns the variables that a program needs beside the test's own, with its device server at a socket.
func environmentFor(libs, socket string) []string {
	return []string{"LD_PRELOAD=" + filepath.Join(libs, "libsingshim-device.so"), "LD_LIBRARY_PATH=" + libs, "SINGULARITY_SLURM_DEVICE=" + socket}
}

// strikes is how often a device server is replaced under a single program at most.
const strikes = 12

// makePlace makes a folder for states, a place for a socket, and the environment of programs that use the server.
func makePlace(t *testing.T, w *soft.World) (folder, socket string, env []string) {
	t.Helper()
	dir := t.TempDir()
	folder, libs, socket := filepath.Join(dir, "state"), filepath.Join(dir, "lib"), filepath.Join(dir, "device")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	makePreloadFolder(t, w, libs)
	return folder, socket, environmentFor(libs, socket)
}

// busyLimit is the time for an undisturbed run on machines with much other load.
const busyLimit = 8 * time.Minute

// limitOfMoves is the time for a program whose device server is replaced, by the time that the program took undisturbed, on a
// machine as busy as this one.
func limitOfMoves(undisturbed time.Duration) time.Duration { return max(3*time.Minute, 20*undisturbed) }

// runWhileMoved runs a program while its device server is replaced at random moments, and returns the output, and the number of moves.
func runWhileMoved(t *testing.T, w *soft.World, seed uint64, limit time.Duration, path string, args ...string) (string, int) {
	t.Helper()
	folder, socket, env := makePlace(t, w)
	var log soft.Output // of the servers, which write while this test reads
	var stdout, stderr bytes.Buffer
	k, err := startKeeper(w, socket, "0,1", &log)
	if err != nil {
		t.Fatal(err, log.String())
	}
	defer func() {
		if k != nil {
			_ = k.killServer()
		}
	}()
	c := exec.Command(path, args...)
	c.Env = append(os.Environ(), env...)
	c.Stdin = strings.NewReader(requests)
	c.Stdout, c.Stderr = &stdout, &stderr
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	r := rand.New(rand.NewPCG(seed, 1))
	late := time.After(limit)
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
		case <-late:
			_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
			<-ended
			t.Fatalf("the program did not end within %s, after %d replacements\n%s\n%s\n%s", limit, n, &stdout, &stderr, &log)
		// The moment of the disturbance.
		case <-strike:
		}
		if k, err = k.replaceServer(t.Context(), w, socket, folder, n, &log, func() {}); err != nil {
			_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
			<-ended
			t.Fatalf("replacement %d: %v\n%s\n%s\n%s", n, err, &stdout, &stderr, &log)
		}
	}
}

// requests are the input of programs.
const requests = "one\ntwo\nthree\nquit\n"

// TestReplaced: programs print the same as in an undisturbed run while their device server is saved, killed and
// replaced under them.
func TestReplaced(t *testing.T) {
	w := soft.Need(t)
	files, err := filepath.Glob("testdata/state_*.c")
	if err != nil || len(files) == 0 {
		t.Fatalf("testdata/state_*.c: files %v: %v", files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".c"), func(t *testing.T) {
			runWhileReplaced(t, w, w.Compile(t, file))
		})
	}
	if err := w.Command("make", "-s", "-C", "tests/workloads", "O="+w.Dir); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{"streams", "--steps", "30"}, {"serve"}} {
		t.Run(command[0], func(t *testing.T) { runWhileReplaced(t, w, filepath.Join(w.Dir, command[0]), command[1:]...) })
	}
}

func runWhileReplaced(t *testing.T, w *soft.World, path string, args ...string) {
	t.Helper()
	began := time.Now()
	want := w.Run(t, soft.Program{Devices: 2, Path: path, Args: args, Stdin: strings.NewReader(requests), Limit: busyLimit})
	limit := limitOfMoves(time.Since(began))
	if want.Exit != 0 {
		t.Fatalf("undisturbed, it ends with %d\n%s\n%s", want.Exit, want.Stdout, want.Stderr)
	}
	least, most := uint64(2), uint64(20)
	if testing.Short() {
		least = 1
	}
	// A short program can end before its first replacement, so further seeds are drawn until one was replaced.
	for seed, replaced := uint64(1), 0; seed <= least || replaced == 0; seed++ {
		if seed > most {
			t.Fatalf("in %d runs its server was never replaced", most)
		}
		got, n := runWhileMoved(t, w, seed, limit, path, args...)
		if got != want.Stdout {
			t.Errorf("seed %d, after %d replacements it printed\n%s, not\n%s", seed, n, got, want.Stdout)
		}
		t.Logf("seed %d: %d replacements", seed, n)
		replaced += n
	}
}

// TestOrphan: a process that gets another pipe, as by a restore of CRIU, still notices the death of its next device
// server.
func TestOrphan(t *testing.T) {
	w := soft.Need(t)
	folder, socket, env := makePlace(t, w)
	var log, stderr soft.Output
	k, err := startKeeper(w, socket, "0,1", &log)
	if err != nil {
		t.Fatal(err, log.String())
	}
	defer func() {
		if k != nil {
			_ = k.killServer()
		}
	}()
	c := exec.Command(w.Compile(t, "testdata/parts/orphan.c", "-D_GNU_SOURCE"))
	c.Env, c.Stderr = append(os.Environ(), env...), &stderr
	stdin, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	limit := time.AfterFunc(2*time.Minute, func() { _ = c.Process.Kill() })
	defer limit.Stop()
	lines := bufio.NewScanner(stdout)
	expect := func(want string) {
		t.Helper()
		if !lines.Scan() || lines.Text() != want {
			_ = c.Process.Kill()
			_ = c.Wait()
			t.Fatalf("the program printed line %q, want %q\n%s\n%s", lines.Text(), want, &stderr, &log)
		}
	}
	expect("attached")
	k, err = k.replaceServer(t.Context(), w, socket, folder, 0, &log, func() {
		if _, err := stdin.Write([]byte{0}); err != nil {
			t.Error(err)
		}
		expect("has another pipe")
	})
	if err != nil {
		_ = c.Process.Kill()
		t.Fatal(err, log.String())
	}
	expect("served")
	if err := k.killServer(); err != nil {
		t.Fatal(err)
	}
	expect("CUDA_ERROR_UNKNOWN")
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
}
