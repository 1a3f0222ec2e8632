// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package capsule

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// forbidsVariable tells a child process to run TestForbids, with mounts of its own.
const forbidsVariable = "CAPSULE_TEST_FORBIDS"

// TestForbids: a user cannot execute files in a capsule's /tmp, or have set-user-ID files there, if the node
// forbids that. The same holds in a fresh capsule and in a restored capsule. The test changes mounts, in a
// mount namespace of its own.
func TestForbids(t *testing.T) {
	needRoot(t)
	if os.Getenv(forbidsVariable) == "" { //nolint:forbidigo // a test's process has no other argument
		cmd := exec.Command("unshare", "--mount", "--propagation", "private", "", "-test.run=^TestForbids$", "-test.v")
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Args[4] = self
		cmd.Env = append(os.Environ(), forbidsVariable+"=1", "TMPDIR="+filepath.Dir(tools.dir))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("the test in its own mount namespace failed: %v\n%s", err, out)
		}
		return
	}
	for path, flags := range map[string]uintptr{"/tmp": unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, "/dev/shm": unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, "/var/tmp": unix.MS_NOSUID} {
		if err := unix.Mount("tmpfs", path, "tmpfs", flags, "mode=1777"); err != nil {
			t.Fatal(err)
		}
	}
	for name, restore := range map[string]bool{"fresh": false, "restored": true} {
		t.Run(name, func(t *testing.T) {
			c := newCapsule(t, func(s *Spec) { s.Restore = restore })
			mounts, err := os.ReadFile("/proc/" + strconv.Itoa(c.PID()) + "/mounts")
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for line := range strings.Lines(string(mounts)) {
				f := strings.Fields(line)
				got[f[1]] = "," + f[3] + "," // the last mount is on top
			}
			for path, want := range map[string][]string{"/tmp": {"nosuid", "nodev", "noexec"}, "/dev/shm": {"nosuid", "nodev", "noexec"}, "/var/tmp": {"nosuid"}} {
				for _, option := range want {
					if !strings.Contains(got[path], ","+option+",") {
						t.Errorf("%s has %s, and not %s", path, got[path], option)
					}
				}
			}
			if strings.Contains(got["/var/tmp"], ",noexec,") {
				t.Errorf("/var/tmp forbids more than the node: %s", got["/var/tmp"])
			}
		})
	}
}
