// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/mounts"
	"github.com/singularity-slurm/singularity-slurm/proxyd/procfs"
)

// TestNodeFiles: a file that Slurm has opened in the node's /tmp is found, and not a file of the capsule's own /tmp.
func TestNodeFiles(t *testing.T) {
	output, err := os.CreateTemp("/tmp", "node-files-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(output.Name())
	defer output.Close()
	program := exec.Command("sh", "-c", "mount -t tmpfs none /tmp && exec 3>/tmp/own && read line")
	program.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Unshareflags: syscall.CLONE_NEWNS}
	program.Stdout = output
	in, err := program.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Skip("SKIP: needs root: it makes a mount namespace: ", err)
	}
	defer program.Wait()
	defer in.Close()
	pid := program.Process.Pid
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	waitFor(t, ctx, "the program has its /tmp", func() bool {
		link, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/3", pid))
		return err == nil && link == "/tmp/own"
	})
	table, err := mounts.Of(pid)
	if err != nil {
		t.Fatal(err)
	}
	files := nodeFilesOf(table)
	for fd, want := range []bool{false, true, false, false} {
		d := procfs.DescriptorOf(pid, fd)
		link, err := d.Link()
		if err != nil {
			t.Fatal(err)
		}
		if got := files.isNodeFile(d, link); got != want {
			t.Errorf("descriptor %d, %s: %v", fd, link, got)
		}
	}
}
