// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package srun

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestWrapperKilled: as if srun had been killed with its step.
func TestWrapperKilled(t *testing.T) {
	s := newServer(t, standIn(t))
	cmd, run, _ := startCall(t, s, "trap 'exit 5' TERM; echo ready; while :; do sleep 0.05; done")
	cmd.Process.Kill()
	cmd.Wait()
	if how, err := run.Wait(testDeadline(t)); err != nil || exitCodeOf(how) != 5 {
		t.Errorf("Wait after sing-srun's death = exit code %d, %v, want 5", exitCodeOf(how), err)
	}
}

// TestLaunchFailure: if srun has reported that Slurm has not started its tasks, HasLaunchFailed tells so when srun has
// ended, and for no other failure.
func TestLaunchFailure(t *testing.T) {
	for says, want := range map[string]bool{
		"srun: error: Application launch failed: Invalid node name specified":                     true,
		"srun: error: Task launch for StepId=7.0 failed on node n2: Socket timed out":             true,
		"3: srun: error: timeout waiting for task launch, started 1 of 2 tasks":                   true,
		"srun: Job step 7.0 aborted before step completely launched.":                             true,
		"srun: StepId=7.0 aborted before step completely launched.":                               true,
		"srun: error: n2: task 1: Exited with exit code 4":                                        false,
		"srun: Job step aborted: Waiting up to 32 seconds for job step to finish.":                false,
		"my program: srun: error: Application launch failed: no":                                  false,
		"srun: error: Unable to create step for job 7: Requested node configuration is not there": false,
	} {
		s := newServer(t, standIn(t))
		cmd, run, _ := startCall(t, s, "echo ready; echo '"+says+"' >&2; exit 1")
		if how, err := run.Wait(testDeadline(t)); err != nil || exitCodeOf(how) != 1 {
			t.Errorf("Wait = exit code %d, %v, want 1", exitCodeOf(how), err)
		}
		_ = cmd.Wait()
		if got := HasLaunchFailed(run.Dir()); got != want {
			t.Errorf("after srun has printed %q, HasLaunchFailed = %v", says, got)
		}
	}
}

// TestStopsForNobody: a process that does not end at SIGTERM is killed.
func TestStopsForNobody(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIP: takes the runner's patience")
	}
	s := newServer(t, standIn(t))
	cmd, run, _ := startCall(t, s, "trap '' TERM; echo ready; while :; do sleep 0.05; done")
	cmd.Process.Kill()
	cmd.Wait()
	if how, err := run.Wait(testDeadline(t)); err != nil || exitCodeOf(how) != -9 {
		t.Errorf("Wait = exit code %d, %v, want death by SIGKILL", exitCodeOf(how), err)
	}
}

func TestQuiet(t *testing.T) {
	s := newServer(t, standIn(t))
	ctx := testDeadline(t)
	cmd, run, out := startCall(t, s, "trap 'exit 3' USR1; trap 'exit 4' TERM; echo ready; while :; do sleep 0.05; done")
	if err := run.Quiet(ctx); err != nil {
		t.Fatal(err)
	}
	cmd.Process.Signal(unix.SIGSTOP) // else sing-srun would ask again
	if err := run.Signal(ctx, unix.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if how, err := run.Wait(ctx); err != nil || exitCodeOf(how) != 3 {
		t.Fatalf("Wait = exit code %d, %v, want 3", exitCodeOf(how), err)
	}
	// sing-srun was not told, so it asks again, with its key, and gets the lost answer.
	s.mu.Lock()
	s.plan = func(r RewriteParameters) RewriteParameters {
		if r.Key != run.Key() {
			t.Errorf("key of the new srun = %q", r.Key)
		}
		return r
	}
	s.mu.Unlock()
	cmd.Process.Signal(unix.SIGCONT)
	// The writer has the status pipe for a moment longer than the runner lives: sing-srun may pass SIGCONT on first.
	again := s.expectAfterSignals("srun")
	if again.keys["key"] != run.Key() {
		t.Errorf("asked again with %v", again.keys)
	}
	waitForReady(t, out)
	again.run.Signal(ctx, unix.SIGUSR1)
	if how := waitForCommand(t, cmd); exitCodeOf(how) != 3 {
		t.Errorf("exit code of sing-srun = %d, want 3", exitCodeOf(how))
	}
}

// TestQuietWithoutSrun: after Quiet the end of sing-srun does not end srun.
func TestQuietWithoutSrun(t *testing.T) {
	s := newServer(t, standIn(t))
	ctx := testDeadline(t)
	cmd, run, _ := startCall(t, s, "trap 'exit 4' TERM; echo ready; while :; do sleep 0.05; done")
	if err := run.Quiet(ctx); err != nil {
		t.Fatal(err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	if _, err := run.Wait(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Error("srun ended with sing-srun, although it was to be quiet: ", err)
	}
	if err := run.Signal(ctx, unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if how, err := run.Wait(ctx); err != nil || exitCodeOf(how) != 4 {
		t.Errorf("Wait = exit code %d, %v, want 4", exitCodeOf(how), err)
	}
}

func TestKill(t *testing.T) {
	s := newServer(t, standIn(t))
	cmd, run, _ := startCall(t, s, "echo ready; exec sleep 1000")
	if err := run.Kill(testDeadline(t)); err != nil {
		t.Fatal(err)
	}
	if how := waitForCommand(t, cmd); exitCodeOf(how) != -9 {
		t.Errorf("exit code of sing-srun = %d, want -9", exitCodeOf(how))
	}
	if how, err := run.Wait(testDeadline(t)); err != nil || exitCodeOf(how) != -9 {
		t.Errorf("Wait = exit code %d, %v, want -9", exitCodeOf(how), err)
	}
	if err := run.Signal(testDeadline(t), unix.SIGTERM); err != nil {
		t.Error("signal after the end: ", err)
	}
}

// TestRunnerKilled: srun does not outlive its runner, and sing-srun asks again.
func TestRunnerKilled(t *testing.T) {
	s := newServer(t, standIn(t))
	cmd, run, out := startCall(t, s, "echo ready; exec sleep 1000")
	pid := run.PID()
	s.stop()
	if err := unix.Kill(run.rec.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitFor(t, 20*time.Second, "srun is gone", func() bool { return errors.Is(unix.Kill(pid, 0), unix.ESRCH) })
	if _, err := run.Wait(testDeadline(t)); !errors.Is(err, ErrGone) {
		t.Error(err)
	}
	s.listen()
	again := s.expectRequest("srun")
	if again.keys["key"] != run.Key() {
		t.Errorf("asked again with %v", again.keys)
	}
	waitForReady(t, out)
	again.run.Kill(testDeadline(t))
	if how := waitForCommand(t, cmd); exitCodeOf(how) != -9 {
		t.Errorf("exit code of sing-srun = %d, want -9", exitCodeOf(how))
	}
}

// TestServerComesLate: proxyd is restarted before srun, while srun runs, and when a signal comes.
func TestServerComesLate(t *testing.T) {
	s := newServer(t, standIn(t))
	s.stop()
	askedInVain := watchFailedRequests(t)
	cmd := caller{args: []string{"trap 'exit 6' USR1; echo ready; while :; do sleep 0.05; done"}}.newCommand()
	r, w, _ := os.Pipe()
	defer r.Close()
	cmd.Stdout, cmd.Stderr = w, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	waitFor(t, 20*time.Second, "sing-srun has looked for proxyd in vain", askedInVain)
	s.listen()
	run := s.expectRequest("srun").run
	waitForReady(t, r)
	s.stop()
	askedInVain = watchFailedRequests(t)
	cmd.Process.Signal(unix.SIGUSR1)
	waitFor(t, 20*time.Second, "sing-srun has tried in vain to pass on the signal", askedInVain)
	s.listen()
	s.expectRequest("signal")
	if how := waitForCommand(t, cmd); exitCodeOf(how) != 6 {
		t.Errorf("exit code of sing-srun = %d, want 6", exitCodeOf(how))
	}
	if how, err := run.Wait(testDeadline(t)); err != nil || exitCodeOf(how) != 6 {
		t.Errorf("Wait = exit code %d, %v, want 6", exitCodeOf(how), err)
	}
}

// TestKilledWhileWaiting: before there is an srun, signals have their usual effect on sing-srun.
func TestKilledWhileWaiting(t *testing.T) {
	needRoot(t)
	os.Remove(socketPath)
	cmd := caller{args: []string{"true"}}.newCommand()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, 20*time.Second, "sing-srun takes signals", func() bool {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
		return strings.Contains(string(b), "SigCgt:\t00000000000") && !strings.Contains(string(b), "SigCgt:\t0000000000000000")
	})
	cmd.Process.Signal(unix.SIGTERM)
	if how := waitForCommand(t, cmd); exitCodeOf(how) != -15 {
		t.Errorf("exit code of sing-srun = %d, want -15", exitCodeOf(how))
	}
}

// starterArg is a process that starts an srun and then waits to be killed.
const starterArg = "start-and-wait"

func startAndWait(args []string) int {
	status := os.NewFile(3, "status")
	caller, err := newCaller(context.Background(), describeRequest("/", "0", "2", "srun", args[2], "PATH=/usr/bin:/bin"), os.Stdin, os.Stdout, os.Stderr, status)
	if err == nil {
		_, err = caller.Start(context.Background(), StartSpec{Dir: args[0], Program: args[1], Rewriting: RewriteParameters{Key: "s1"}, UID: user, GID: group})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	select {}
}

// TestAdopt: proxyd is killed, and the next proxyd finds the srun.
func TestAdopt(t *testing.T) {
	needRoot(t)
	ctx := testDeadline(t)
	parent := t.TempDir()
	dir := filepath.Join(parent, "s1")
	statusR, statusW, _ := os.Pipe()
	outR, outW, _ := os.Pipe()
	defer statusR.Close()
	defer outR.Close()
	cmd := exec.Command("/proc/self/exe", starterArg, dir, standIn(t), "trap 'exit 9' USR2; echo ready; while :; do sleep 0.05; done")
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = outW, os.Stderr, []*os.File{statusW}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	outW.Close()
	statusW.Close()
	waitForReady(t, outR)
	cmd.Process.Kill()
	cmd.Wait()
	if err := os.WriteFile(filepath.Join(parent, "a-file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := Find(parent)
	if err != nil || len(all) != 1 || all[0].Key() != "s1" || all[0].Ended() {
		t.Fatalf("Find = %v, %v, want the running srun s1 alone", all, err)
	}
	run := all[0]
	defer run.Close()
	null, _ := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	defer null.Close()
	second, err := newCaller(ctx, describeRequest("/", "0", "1", "srun"), null, null, null, null)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close(ctx)
	if _, err := second.Start(ctx, StartSpec{Dir: dir}); !errors.Is(err, ErrExists) {
		t.Error(err)
	}
	if err := run.Signal(ctx, unix.SIGUSR2); err != nil {
		t.Fatal(err)
	}
	if how, err := run.Wait(ctx); err != nil || exitCodeOf(how) != 9 {
		t.Errorf("Wait = exit code %d, %v, want 9", exitCodeOf(how), err)
	}
	statusR.SetReadDeadline(time.Now().Add(30 * time.Second))
	if b, err := io.ReadAll(statusR); err != nil || string(b) != "key s1\nexit 9\n" {
		t.Errorf("status pipe = %q, %v, want the key and exit 9", b, err)
	}
	later, err := Adopt(dir)
	if err != nil {
		t.Fatal(err)
	}
	if how, err := later.Wait(ctx); err != nil || exitCodeOf(how) != 9 || !later.Ended() {
		t.Errorf("Wait after Adopt = exit code %d, %v, want 9 of an ended srun", exitCodeOf(how), err)
	}
	if err := later.Remove(ctx); err != nil {
		t.Error(err)
	}
	if _, err := Adopt(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestInheritsNothing: neither runner nor srun has a descriptor of the starter's.
func TestInheritsNothing(t *testing.T) {
	s := newServer(t, standIn(t))
	var p [2]int
	if err := unix.Pipe2(p[:], 0); err != nil { // no O_CLOEXEC: another program's mistake
		t.Fatal(err)
	}
	defer unix.Close(p[0])
	defer unix.Close(p[1])
	mine, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", p[0]))
	_, run, _ := startCall(t, s, "echo ready; exec sleep 1000")
	for _, pid := range []int{run.rec.PID, run.PID()} {
		fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		if err != nil {
			t.Fatal(err)
		}
		for _, fd := range fds {
			if link, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, fd.Name())); link == mine {
				t.Errorf("process %d has the starter's descriptor of %s", pid, link)
			}
		}
	}
}
