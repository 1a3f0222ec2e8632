// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
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
	if b, err := r.Queue(); len(b) != 0 || err != nil {
		t.Errorf("of a new queue: %q, %v", b, err)
	}
	if err := r.Fill([]byte("input of a task"), false); err != nil {
		t.Fatal(err)
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
	if b, err := kept.Queue(); string(b) != "of a task" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	if err := unix.Ftruncate(r.queue, 3); err != nil {
		t.Fatal(err)
	}
	if b, err := kept.Queue(); err == nil {
		t.Errorf("of a file that ends before its offset: %q", b)
	}
	if err := unix.Ftruncate(r.queue, 1<<40); err != nil {
		t.Fatal(err)
	}
	if _, err := kept.Queue(); err == nil {
		t.Error("a terabyte is no error")
	}
	if err := r.Fill(nil, true); err != nil {
		t.Fatal(err)
	}
	if err := unix.Ftruncate(r.queue, 1<<41); err == nil {
		t.Error("the queue of an input that has ended has not been sealed")
	}
	if gone, err := OpenInputRelay(Process{PID: self.PID, Started: self.Started + 1}, pipe); gone != nil || err != nil {
		t.Errorf("of a warden that has ended: %v, %v", gone, err)
	}
}
