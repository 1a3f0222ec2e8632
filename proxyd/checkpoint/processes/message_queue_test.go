// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/mounts"
	"github.com/singularity-slurm/singularity-slurm/proxyd/procfs"
)

// ownQueues are the queues of this process.
func ownQueues(t *testing.T) queues {
	t.Helper()
	table, err := mounts.Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	return openQueues(os.Getpid(), table)
}

// ownSearch looks for descriptors as if this process were the first of a capsule that has no mounts.
func ownSearch(t *testing.T) *descriptorSearch {
	t.Helper()
	return &descriptorSearch{init: os.Getpid(), queues: ownQueues(t), files: nodeFiles{&mounts.Table{}, &mounts.Table{}}}
}

// TestMessageQueue: an open POSIX message queue stands in no checkpoint's way unless a process is to be notified, or the
// queue was removed. A file in the root folder and a file with a queue's name are not taken for a queue.
func TestMessageQueue(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIP: needs root: it joins an IPC namespace")
	}
	name := fmt.Sprintf("singularity-test-%d", os.Getpid())
	cName, err := unix.BytePtrFromString(name)
	if err != nil {
		t.Fatal(err)
	}
	fd, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(cName)), unix.O_CREAT|unix.O_EXCL|unix.O_RDWR, 0o600, 0, 0, 0)
	if errno != 0 {
		t.Fatal("mq_open: ", errno)
	}
	defer unix.Close(int(fd))
	unlink := func() { _, _, _ = unix.Syscall(unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(cName)), 0, 0) }
	defer unlink()
	root, err := os.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	same, err := os.Create(filepath.Join(t.TempDir(), name))
	if err != nil {
		t.Fatal(err)
	}
	defer same.Close()
	expect := func(want ...string) {
		t.Helper()
		var got []string
		for _, o := range ownSearch(t).findObstacles(t.Context(), capsule.Program{Name: "batch"}, os.Getpid(), terminals{}) {
			if strings.Contains(o.What, "queue") { // the test's own terminal may be another
				got = append(got, o.What+": "+o.Cure)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	expect()
	event := [8]uint64{1: 1 << 32} // struct sigevent: sigev_notify is SIGEV_NONE
	if _, _, errno := unix.Syscall(unix.SYS_MQ_NOTIFY, fd, uintptr(unsafe.Pointer(&event)), 0); errno != 0 {
		t.Fatal("mq_notify: ", errno)
	}
	// The look itself ends the notification: this process closes a descriptor of the queue.
	expect("is to be notified of messages in the POSIX message queue /" + name + " (mq_notify): " + notifiedCure)
	unlink()
	expect("has the POSIX message queue /" + name + " open, which was removed: " + removedQueueCure)
}

// TestQueueByPath: a queue that was opened in /dev/mqueue is named; the folder is not.
func TestQueueByPath(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIP: needs root: it mounts")
	}
	dir := t.TempDir()
	if err := unix.Mount("mqueue", dir, "mqueue", 0, ""); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	path := fmt.Sprintf("%s/singularity-path-%d", dir, os.Getpid())
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	defer os.Remove(path)
	folder, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	want := "has the POSIX message queue " + path + " open by its path"
	if what, _ := ownQueues(t).findObstacle(os.Getpid(), procfs.DescriptorOf(os.Getpid(), int(f.Fd())), path); what != want {
		t.Errorf("got %q, want %q", what, want)
	}
	if what, _ := ownQueues(t).findObstacle(os.Getpid(), procfs.DescriptorOf(os.Getpid(), int(folder.Fd())), dir); what != "" {
		t.Errorf("obstacle of the folder of queues: %q, want none", what)
	}
}
