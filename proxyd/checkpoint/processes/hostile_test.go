// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/landlock"
	"github.com/singularity-slurm/singularity-slurm/proxyd/mounts/mountstest"
	"github.com/singularity-slurm/singularity-slurm/proxyd/procfs"
	"github.com/singularity-slurm/singularity-slurm/proxyd/tiles"
)

// bytesRead is how much this process has read so far.
func bytesRead(t *testing.T) (n int) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/io")
	if err != nil {
		t.Skip("SKIP: the kernel does not count what a process reads: ", err)
	}
	if _, err := fmt.Sscanf(string(b), "rchar: %d", &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// manyMounts has a program with a mount namespace of its own in which there are 2048 mounts, and 1000 descriptors.
const manyMounts = `
set -e
mount -t tmpfs none "$0"
for i in 1 2 3 4 5 6 7 8 9 10 11; do mkdir "$0/$i"; done
for i in 1 2 3 4 5 6 7 8 9 10 11; do mount --rbind "$0" "$0/$i"; done
for i in $(seq 1000); do exec {fd}</proc/version; done
echo ready $(wc -l </proc/self/mountinfo)
exec sleep 1000`

// TestManyMounts: the cost of a look at a process does not grow with the product of its mounts and its descriptors. The
// user chooses both numbers, and root looks, outside of the job's cgroup.
func TestManyMounts(t *testing.T) {
	cmd := exec.Command("unshare", "-Urm", "bash", "-c", manyMounts, t.TempDir())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	line, _ := bufio.NewReader(out).ReadString('\n')
	var mounted int
	if _, err := fmt.Sscanf(line, "ready %d", &mounted); err != nil || mounted < 2048 {
		t.Skipf("SKIP: needs user namespaces with mounts: %q", line)
	}
	group := groupOf(t, cmd.Process.Pid)
	_, _ = landlock.Prepare() // reads the kernel's BTF, once for all looks
	_ = tiles.Prepare()
	before := bytesRead(t)
	found := FindObstacles(t.Context(), os.Getpid(), []capsule.Program{{Name: "batch", Cgroup: group}})
	if got := bytesRead(t) - before; got > 1<<20 {
		t.Errorf("the look has read %d bytes", got)
	}
	if !strings.Contains(fmt.Sprint(found), "container of its own") {
		t.Errorf("obstacles %v, want the container of its own", found)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if found := FindObstacles(ended, os.Getpid(), []capsule.Program{{Name: "batch", Cgroup: group}}); len(found) > 0 {
		t.Errorf("the look went on after its end: %v", found)
	}
}

// openMany gives this process n descriptors more.
func openMany(t *testing.T, n int) {
	t.Helper()
	for range n {
		fd, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
	}
}

// TestManyDescriptors: the cost of a look at a process does not grow with the descriptors of the process beyond a
// bound.
func TestManyDescriptors(t *testing.T) {
	const many = 3 * procfs.MaxDescriptors
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: many + 1000, Max: max(was.Max, many+1000)}); err != nil {
		t.Skip("SKIP: this machine allows too few descriptors: ", err)
	}
	t.Cleanup(func() { unix.Setrlimit(unix.RLIMIT_NOFILE, &was) })
	programs := []capsule.Program{{Name: "batch", Cgroup: groupOf(t, os.Getpid())}}
	var found []Obstacle
	isNamed := func() bool {
		return slices.ContainsFunc(found, func(o Obstacle) bool {
			return o.What == fmt.Sprintf("has more than %d descriptors open", procfs.MaxDescriptors)
		})
	}
	allocated := func() uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		found = FindObstacles(t.Context(), os.Getpid(), programs)
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	_, _ = landlock.Prepare() // once for all looks
	_ = tiles.Prepare()
	openMany(t, procfs.MaxDescriptors-1000)
	bounded := allocated()
	if isNamed() {
		t.Errorf("found in a process with fewer than the most descriptors: %v", found)
	}
	openMany(t, many-procfs.MaxDescriptors)
	if got := allocated(); got > bounded+bounded/2 {
		t.Errorf("a look at %d descriptors has made %d bytes, and a look at %d has made %d", procfs.MaxDescriptors, bounded, many, got)
	}
	if !isNamed() {
		t.Errorf("nothing says that the process has too many descriptors: %v", found)
	}
}

// TestEndOfVisit: a visit of descriptors ends soon after its context, and at once where visit says so.
func TestEndOfVisit(t *testing.T) {
	openMany(t, 3000)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := 0
	visit := func(until int) error {
		seen = 0
		return visitDescriptors(ctx, os.Getpid(), func(procfs.Descriptor) bool {
			seen++
			return seen < until
		})
	}
	if err := visit(1 << 30); err != nil || seen < 3000 {
		t.Errorf("%d descriptors are looked at: %v", seen, err)
	}
	if err := visit(7); err != nil || seen != 7 {
		t.Errorf("%d descriptors are looked at after seven: %v", seen, err)
	}
	seen = 0
	err := visitDescriptors(ctx, os.Getpid(), func(procfs.Descriptor) bool {
		seen++
		cancel()
		return true
	})
	if !errors.Is(err, context.Canceled) || seen > 1024 {
		t.Errorf("%d descriptors are looked at after the look's end: %v", seen, err)
	}
}

// TestServerThatIsSilent: no look at a process waits for the server of a file system that the process uses, not even where
// the file has the link of a queue, of a terminal or of a program.
func TestServerThatIsSilent(t *testing.T) {
	s := mountstest.Serve(t, 1001)
	fd := s.Open(t)
	mapped, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mapped)
	s.Silence()
	self := os.Getpid()
	if got := SystemExecutables(self, []capsule.Program{{Name: "batch", Cgroup: groupOf(t, self)}}, func(string) bool { return false }); strings.Contains(fmt.Sprint(got), s.Path) {
		t.Errorf("a user's server is asked for a file of the system: %q", got)
	}
	own := terminals{driven: map[string]bool{s.Path: true}}
	if own.isOwn(fmt.Sprintf("/proc/self/fd/%d", fd), s.Path) {
		t.Error("a file is a terminal")
	}
	if err := unix.Unmount(s.Folder, unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	if link, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)); err != nil || link != "/file" {
		t.Fatalf("name of the unmounted file: %q, %v; want /file", link, err)
	}
	ownSearch(t).findObstacles(t.Context(), capsule.Program{Name: "batch"}, self, terminals{})
}

// groupOf is a folder that looks like the cgroup of a process.
func groupOf(t *testing.T, pid int) string {
	t.Helper()
	group := t.TempDir()
	if err := os.WriteFile(filepath.Join(group, "cgroup.procs"), fmt.Appendln(nil, pid), 0o644); err != nil {
		t.Fatal(err)
	}
	return group
}
