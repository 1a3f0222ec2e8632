// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"encoding/binary"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOpenMap: root's process learns whether its pages are present, and not their physical addresses, and keeps its
// rights. It runs in a process of its own, which has not opened the file.
func TestOpenMap(t *testing.T) {
	const child = "PAGES_TEST_OPEN_MAP"
	if os.Getenv(child) == "" {
		c := exec.Command("/proc/self/exe", "-test.run=^TestOpenMap$")
		c.Env = append(os.Environ(), child+"=1")
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("the test in a process of its own: %v\n%s", err, out)
		}
		return
	}
	rights := func() (h unix.CapUserHeader, d [2]unix.CapUserData) {
		h.Version = unix.LINUX_CAPABILITY_VERSION_3
		if err := unix.Capget(&h, &d[0]); err != nil {
			t.Fatal(err)
		}
		return h, d
	}
	runtime.LockOSThread() // rights are a thread's
	defer runtime.UnlockOSThread()
	_, before := rights()
	if err := OpenMap(); err != nil {
		t.Fatal(err)
	}
	if _, after := rights(); after != before {
		t.Errorf("capabilities after OpenMap = %v, want %v", after, before)
	}
	page := make([]byte, 2*os.Getpagesize())
	for i := range page {
		page[i] = 1
	}
	entry := make([]byte, 8)
	if _, err := Map().ReadAt(entry, int64(addressOf(page)/uint64(os.Getpagesize())*8)); err != nil {
		t.Fatal(err)
	}
	const present, frame = 1 << 63, 1<<55 - 1
	if e := binary.LittleEndian.Uint64(entry); e&present == 0 || e&frame != 0 {
		t.Errorf("the pagemap's entry of a present page is %#x, want no physical address", e)
	}
}
