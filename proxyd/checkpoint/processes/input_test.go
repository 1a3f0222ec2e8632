// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/mounts/mountstest"
)

// TestInputRelay takes this process for a warden: the queue's bytes are those from the file's offset on, also when the warden has let
// go of the queue.
func TestInputRelay(t *testing.T) {
	self, err := NewProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	const pipe = "pipe:[1]" // is none of this process's
	if r, err := OpenInputRelay(self, pipe); r != nil || err != nil {
		t.Fatalf("without a queue: %v, %v", r, err)
	}
	// A file of that name is no queue.
	other, err := os.Create(filepath.Join(t.TempDir(), "memfd:sing-input (deleted)"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if r, err := OpenInputRelay(self, pipe); r != nil || err != nil {
		t.Fatalf("with a file: %v, %v", r, err)
	}
	queue, err := unix.MemfdCreate("sing-input", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	r, err := OpenInputRelay(self, pipe)
	if err != nil || r == nil {
		t.Fatalf("%v, %v", r, err)
	}
	defer r.Close()
	if b, err := r.Queue(); err != nil || b.Size() != 0 {
		t.Errorf("of a new queue: %v, %v", b, err)
	}
	if n, err := r.Fill(strings.NewReader("input of a task")); n != int64(len("input of a task")) || err != nil {
		t.Fatal(n, err)
	}
	if _, err := unix.Seek(queue, int64(len("input ")), 0); err != nil {
		t.Fatal(err)
	}
	kept, err := r.CopyQueue()
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	unix.Close(queue)
	b, err := kept.Queue()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(b); string(got) != "of a task" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if err := unix.Ftruncate(r.queue, 3); err != nil {
		t.Fatal(err)
	}
	if b, err := kept.Queue(); err == nil {
		t.Errorf("of a file that ends before its offset: %d bytes", b.Size())
	}
	if err := unix.Ftruncate(r.queue, 1<<40); err != nil {
		t.Fatal(err)
	}
	if _, err := kept.Queue(); err == nil {
		t.Error("a terabyte is no error")
	}
	if err := r.End(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Ftruncate(r.queue, 1<<41); err == nil {
		t.Error("the queue of an input that has ended has not been sealed")
	}
	if gone, err := OpenInputRelay(Process{PID: self.PID, Started: self.Started + 1}, pipe); gone != nil || err != nil {
		t.Errorf("of a warden that has ended: %v, %v", gone, err)
	}
}

// TestInputOfServer: a file that a user serves, with the link of a queue, is not as much as closed, which would wait for the user's
// server.
func TestInputOfServer(t *testing.T) {
	self, err := NewProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	s := mountstest.Serve(t, 1001)
	fd, err := unix.Open(filepath.Join(s.Folder, "memfd:sing-input (deleted)"), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Unmount(s.Folder, unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	if link, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)); err != nil || link != queueLink {
		t.Fatal(link, err)
	}
	s.Silence()
	if r, err := OpenInputRelay(self, "pipe:[1]"); r != nil || err != nil {
		t.Errorf("%v, %v", r, err)
	}
	if n := s.Closed(); n != 0 {
		t.Errorf("the server was told %d times that its file is closed", n)
	}
}
