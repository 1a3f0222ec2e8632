// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package shared_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/shared"
)

// nfsVariable names a folder that this machine has mounted from its own NFS server, by the loopback interface
// (tests/cluster/testdata/guest/nfs.sh).
const nfsVariable = "TEST_NFS"

// linkServer takes the network between this machine and the server down, or up again.
func linkServer(t *testing.T, state string) {
	t.Helper()
	if out, err := exec.Command("ip", "link", "set", "lo", state).CombinedOutput(); err != nil {
		t.Errorf("ip link set lo %s: %v: %s", state, err, out)
	}
}

// TestDeadServer: while the NFS server of the shared folder is dead, each look at the folder ends within seconds and says
// that the folder's file system does not answer, and a single system call hangs. Once the server is back, looks find the
// same folder.
func TestDeadServer(t *testing.T) {
	server := os.Getenv(nfsVariable)
	if server == "" {
		t.Skipf("SKIP: no NFS server that can be cut off ($%s): make test-long has one, in an emulated machine", nfsVariable)
	}
	path := filepath.Join(server, "shared")
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, _, err := shared.Init(path, "guest"); err != nil {
		t.Fatal(err)
	}
	folder, err := shared.Open(path, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var w shared.Watch
	var calls atomic.Int32
	look := func() error {
		return w.CheckNow(t.Context(), func() error { calls.Add(1); return folder.Check() })
	}
	if err := look(); err != nil {
		t.Fatal(err)
	}
	calls.Store(0)
	linkServer(t, "down")
	t.Cleanup(func() { linkServer(t, "up") })
	for deadline := time.Now().Add(time.Minute); ; {
		if err := look(); errors.Is(err, shared.ErrSilent) {
			break
		} else if err != nil || time.Now().After(deadline) {
			t.Fatalf("a look while the server is dead: %v, want ErrSilent", err)
		}
		calls.Store(0) // the kernel still had the answers of before
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if err := look(); !errors.Is(err, shared.ErrSilent) {
				t.Errorf("a look while the server is dead: %v, want ErrSilent", err)
			}
		})
	}
	all.Wait()
	if n := calls.Load(); n != 1 {
		t.Errorf("%d calls hang, want 1", n)
	}
	linkServer(t, "up")
	for deadline := time.Now().Add(2 * time.Minute); ; {
		err := look()
		if err == nil {
			return
		}
		if !errors.Is(err, shared.ErrSilent) || time.Now().After(deadline) {
			t.Fatalf("a look after the server's return: %v", err)
		}
	}
}
