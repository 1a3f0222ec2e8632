// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
)

// TestMessageQueue: an open POSIX message queue is found and named; a file in the root folder, a removed file and a
// file with a queue's name are not taken for a queue.
func TestMessageQueue(t *testing.T) {
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
	defer unix.Syscall(unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(cName)), 0, 0)
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
	found := processObstacles(capsule.Program{Name: "batch"}, os.Getpid(), terminals{})
	found = slices.DeleteFunc(found, func(o Obstacle) bool { return o.Cure != messageQueueCure }) // the test's own terminal may be another
	if len(found) != 1 || found[0].What != "has the POSIX message queue /"+name+" open" {
		t.Errorf("%v", found)
	}
	for _, file := range []*os.File{root, same} {
		if number := fmt.Sprint(file.Fd()); isMessageQueue(os.Getpid(), number, file.Name()) {
			t.Errorf("%s is taken for a queue", file.Name())
		}
	}
}
