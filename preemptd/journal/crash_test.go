// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var seed = flag.Uint64("seed", uint64(time.Now().UnixNano()), "seed of the moments at which processes are killed; printed when a test fails")

// lives are the other processes that the test binary can be.
var lives = map[string]func([]string) int{"write": writeForEver, "hold": holdMandate, "full": fillDisk, "readonly": readOnly}

// startLife starts the test binary as another process.
func startLife(t *testing.T, name string, args ...string) (*exec.Cmd, io.Reader) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), "JOURNAL_LIFE="+name)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	return cmd, out
}

const stepsEach = 5

// writeForEver does actions of stepsEach steps in turn, and prints each write that the journal confirmed.
func writeForEver(args []string) int {
	ctx := context.Background()
	j, err := Open(ctx, args[0], "test")
	if err == nil {
		// Its predecessor was killed: the process need not wait for the end of that mandate.
		_, err = j.database().Exec("DELETE FROM lease")
	}
	if err == nil {
		err = j.Await(ctx, nil)
	}
	for err == nil {
		var a Action
		if a, err = j.Begin(ctx, preempt); err != nil {
			break
		}
		fmt.Println(a.ID, 0)
		for i := int64(1); i <= stepsEach && err == nil; i++ {
			a.Step = fmt.Sprint("step ", i)
			if i == stepsEach {
				a.State = Done
			}
			if err = j.Save(ctx, &a, strings.Repeat("x", 2000)); err == nil {
				fmt.Println(a.ID, i)
			}
		}
	}
	fmt.Fprintln(os.Stderr, "writer:", err)
	return 1
}

// TestKilled kills a process that writes, at random moments: each confirmed write is there, and beyond these only the
// write that was under way may be there.
func TestKilled(t *testing.T) {
	defer func() {
		if t.Failed() {
			t.Logf("-seed=%d", *seed)
		}
	}()
	random := rand.New(rand.NewPCG(*seed, 1))
	path := filepath.Join(t.TempDir(), "preemptd.db")
	for round := range 15 {
		cmd, out := startLife(t, "write", path)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// Some lines, and then some microseconds, so that all moments of a write are met.
		lines, id, revision := 0, int64(0), int64(0)
		most := 1 + random.IntN(40)
		said := bufio.NewScanner(out)
		for said.Scan() {
			if _, err := fmt.Sscan(said.Text(), &id, &revision); err != nil {
				t.Fatal(err)
			}
			if lines++; lines == most {
				time.Sleep(time.Duration(random.IntN(2000)) * time.Microsecond)
				cmd.Process.Kill()
			}
		}
		cmd.Wait()
		if lines < most {
			t.Fatalf("round %d: the writer ended after %d lines", round, lines)
		}
		afterKill(t, path, id, revision)
	}
}

func afterKill(t *testing.T, path string, id, revision int64) {
	t.Helper()
	j := openUnchecked(t, path)
	if _, err := j.database().Exec("DELETE FROM lease"); err != nil {
		t.Fatal(err)
	}
	if err := j.Await(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	checkIntegrity(t, j)
	a, err := j.Action(t.Context(), id)
	if err != nil || a.Revision < revision || a.Revision > revision+1 {
		t.Fatalf("action %d: %v: confirmed up to %d, found %d", id, err, revision, a.Revision)
	}
	open, err := j.Unfinished(t.Context())
	if err != nil || len(open) > 1 {
		t.Fatalf("%v: %d actions are open", err, len(open))
	}
	for _, a := range open { // so that the next writer can begin
		if a.ID > id+1 || a.ID > id && revision < stepsEach-1 {
			t.Fatalf("action %d is open, and %d was the last that began", a.ID, id)
		}
		a.State = Undone
		if err := j.Save(t.Context(), &a, "killed"); err != nil {
			t.Fatal(err)
		}
	}
}

// holdMandate takes the mandate, and keeps the mandate until the process is killed.
func holdMandate(args []string) int {
	ctx := context.Background()
	j, err := Open(ctx, args[0], "test")
	if err == nil {
		err = j.Await(ctx, nil)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("mine")
	fmt.Println(j.Keep(ctx, nil))
	return 1
}

// TestTakenOver: a second preemptd waits while the first lives, and takes over within ten
// seconds when the first is killed.
func TestTakenOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "preemptd.db")
	cmd, out := startLife(t, "hold", path)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "mine\n" {
		t.Fatalf("first line of the process that holds the mandate = %q, %v, want \"mine\\n\"", line, err)
	}
	second := openUnchecked(t, path)
	told := make(chan Mandate, 10)
	have := make(chan error, 1)
	go func() { have <- second.Await(t.Context(), func(m Mandate) { told <- m }) }()
	if l := <-told; l.Mine || !strings.HasSuffix(l.Name, "process "+strconv.Itoa(cmd.Process.Pid)) {
		t.Errorf("Await told of the mandate %+v, want the other process's", l)
	}
	select {
	case err := <-have:
		t.Fatalf("two have the mandate: %v", err)
	case <-time.After(mandateLife / 2):
	}
	killed := time.Now()
	cmd.Process.Kill()
	if err := <-have; err != nil {
		t.Fatal(err)
	}
	took := time.Since(killed)
	t.Logf("taken over after %s", took.Round(time.Millisecond))
	if promised := 10 * time.Second; mandateLife+mandateLook >= promised {
		t.Errorf("a mandate of %s, looked at every %s, cannot be taken over within %s", mandateLife, mandateLook, promised)
	}
	if took > time.Minute { // the machine may be slow
		t.Errorf("taken over after %s", took)
	}
}

// inNamespace starts a life as root of its own mounts.
func inNamespace(t *testing.T, name string) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", t.TempDir())
	cmd.Env = append(os.Environ(), "JOURNAL_LIFE="+name)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) {
		t.Skipf("this machine has no user namespaces: %v", err)
	}
	if err != nil {
		t.Errorf("test in a user namespace: %v\n%s", err, out)
	}
}

func TestDiskFull(t *testing.T) { inNamespace(t, "full") }

// fillDisk: a full disk is reported, harms no data, and is over when there is room again.
func fillDisk(args []string) int {
	ctx := context.Background()
	if err := unix.Mount("none", args[0], "tmpfs", 0, "size=300k"); err != nil {
		return reportFailure("tmpfs", err)
	}
	ballast := filepath.Join(args[0], "ballast")
	if err := os.WriteFile(ballast, make([]byte, 64<<10), 0o600); err != nil {
		return reportFailure("ballast", err)
	}
	j, err := Open(ctx, filepath.Join(args[0], "x.db"), "test")
	if err == nil {
		err = j.Await(ctx, nil)
	}
	if err != nil {
		return reportFailure("open", err)
	}
	a, err := j.Begin(ctx, preempt)
	if err != nil {
		return reportFailure("begin", err)
	}
	last := a
	for err == nil {
		last = a
		err = j.Save(ctx, &a, strings.Repeat("y", 5000))
	}
	if !errors.Is(err, ErrFull) || a.Revision != last.Revision {
		return reportFailure("a full disk", err)
	}
	if now, err := j.Action(ctx, a.ID); err != nil || now.Revision != a.Revision {
		return reportFailure("after a full disk", errors.Join(err, fmt.Errorf("revision %d, want %d", now.Revision, a.Revision)))
	}
	if err := os.Remove(ballast); err != nil {
		return reportFailure("ballast", err)
	}
	a.State = Done
	if err := j.Save(ctx, &a, ""); err != nil {
		return reportFailure("room again", err)
	}
	return checkWhole(j)
}

func TestReadOnly(t *testing.T) { inNamespace(t, "readonly") }

// readOnly: a file system that becomes read-only is reported; the journal there can be read, but cannot be opened
// anew.
func readOnly(args []string) int {
	ctx := context.Background()
	if err := unix.Mount("none", args[0], "tmpfs", 0, "size=8m"); err != nil {
		return reportFailure("tmpfs", err)
	}
	path := filepath.Join(args[0], "x.db")
	j, err := Open(ctx, path, "test")
	if err == nil {
		err = j.Await(ctx, nil)
	}
	if err != nil {
		return reportFailure("open", err)
	}
	if _, err := j.Begin(ctx, preempt); err != nil {
		return reportFailure("begin", err)
	}
	if err := j.Close(); err != nil {
		return reportFailure("close", err)
	}
	if err := unix.Mount("none", args[0], "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		return reportFailure("remount", err)
	}
	if _, err := Open(ctx, path, "test"); !errors.Is(err, unix.EROFS) || !strings.Contains(err.Error(), path) {
		return reportFailure("open read-only", err)
	}
	return 0
}

func checkWhole(j *Journal) int {
	var ok string
	if err := j.database().QueryRow("PRAGMA integrity_check").Scan(&ok); err != nil || ok != "ok" {
		return reportFailure("integrity "+ok, err)
	}
	return 0
}

func reportFailure(what string, err error) int {
	fmt.Printf("%s: %v\n", what, err)
	return 1
}
