// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package outside

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/life"
)

// findSilent returns a Forwarder with a process that never answers.
func findSilent(t *testing.T) (*Forwarder, *exec.Cmd) {
	t.Helper()
	dir := t.TempDir()
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: filepath.Join(dir, "control"), Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	began := bytes.Fields(stat)[21] // the command's name, sleep, has no spaces
	record := fmt.Sprintf(`{"boot":%q,"pid":%d,"start":%s,"helper":"forward"}`, strings.TrimSpace(string(boot)), cmd.Process.Pid, began)
	if err := os.WriteFile(filepath.Join(dir, "server.json"), []byte(record), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := life.Find(t.Context(), dir)
	if err != nil || p == nil {
		t.Fatalf("Find returns process %v, %v; want the process that was started", p, err)
	}
	t.Cleanup(p.Close)
	return &Forwarder{process: p}, cmd
}

// TestStopped: a forwarder that its user has stopped is not waited for; a forwarder that is slow is.
func TestStopped(t *testing.T) {
	f, cmd := findSilent(t)
	ctx, cancel := context.WithTimeout(t.Context(), stoppedLook*(stoppedLooks+5))
	defer cancel()
	if err := f.Hold(ctx); err == nil || errors.Is(err, ErrStopped) {
		t.Errorf("a slow forwarder: %v", err)
	}
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for name, order := range map[string]func(context.Context) error{"hold": f.Hold, "continue": f.Continue} {
		if err := order(ctx); !errors.Is(err, ErrStopped) {
			t.Errorf("%s to a stopped forwarder: %v, want ErrStopped", name, err)
		}
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("two orders took %s", took)
	}
}
