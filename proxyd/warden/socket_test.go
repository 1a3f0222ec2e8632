// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package warden

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// listening is a Conductor that says who asked for an srun.
type listening struct {
	Conductor
	asked chan uint32
}

func (l listening) Signal(_ context.Context, who Peer, _ string, _ syscall.Signal) error {
	l.asked <- who.UID
	return nil
}

// callerVariable makes the test binary a caller: it opens so many connections, says so,
// and on the last one sends a request.
const callerVariable = "WARDEN_TEST_CALLER"

func TestMain(m *testing.M) {
	if v := os.Getenv(callerVariable); v != "" {
		if err := beCaller(v); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func beCaller(what string) error {
	path, rest, _ := strings.Cut(what, ",")
	n := 0
	if _, err := fmt.Sscan(rest, &n); err != nil {
		return err
	}
	var last *net.UnixConn
	for range n {
		c, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
		if err != nil {
			return err
		}
		last = c
	}
	if n == 1 {
		_, err := last.Write(newMessage(verbSignal, "version", version, "key", "s0-1", "signal", "10").encode())
		return err
	}
	fmt.Println("open")
	_, err := io.Copy(io.Discard, os.Stdin) // until the test is done
	return err
}

// TestCrowd: one user who opens all the connections that he can, and says nothing, keeps
// nobody else out.
func TestCrowd(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to be several users")
	}
	dir, err := os.MkdirTemp("", "warden")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	l := listening{asked: make(chan uint32)}
	s, err := Listen(dir, "test", l, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan struct{})
	go func() { s.Serve(ctx); close(served) }()
	defer func() { cancel(); <-served }()

	call := func(uid uint32, n int) *exec.Cmd {
		c := exec.Command("/proc/self/exe")
		c.Env = append(os.Environ(), fmt.Sprintf("%s=%s,%d", callerVariable, filepath.Join(dir, SrunSocket), n))
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}, Pdeathsig: syscall.SIGKILL}
		c.Stderr = os.Stderr
		return c
	}
	crowd := call(54321, 5*maxCalls)
	hold, err := crowd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := crowd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := crowd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "open\n" {
		t.Fatal(line, err)
	}
	began := time.Now()
	if err := call(54322, 1).Run(); err != nil {
		t.Error(err)
	}
	if uid := <-l.asked; uid != 54322 {
		t.Errorf("uid %d", uid)
	}
	if d := time.Since(began); d >= patience {
		t.Errorf("the other user waited %s", d)
	}
	hold.Close()
	if err := crowd.Wait(); err != nil {
		t.Error(err)
	}
}
