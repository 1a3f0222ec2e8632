// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package guest runs test programs in a virtual machine, for facilities that this machine lacks: another version of
// cgroups, an NFS server, systemd. The machine is emulated, because /dev/kvm may not work, with Debian's kernel, a root
// file system of the test clusters, and no network.
package guest

import (
	"context"
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/tests/remote"
)

// fetchKernel leaves Debian's kernel and its modules in a folder.
//
//go:embed kernel.sh
var fetchKernel string

// makeInitrd makes the initial file system.
//
//go:embed initrd.sh
var makeInitrd string

// Machine is a virtual machine with a single processor.
type Machine struct {
	Tree    string        // the root file system; changes to it are lost
	Init    string        // path of the script that is the first process, of /bin/sh; see testdata/guest/run.sh of tests/cluster
	Within  time.Duration // how long all of it may take
	Memory  int           // MiB; 0: 1536
	Modules []string      // of the kernel, there before Init runs; more are in /usr/lib/modules

	// FillFolder puts the files that Init needs into a folder. The folder is /guest in the machine. Init leaves there
	// the output of the test programs ("out") and their exit status ("code"), and ends the machine.
	FillFolder func(folder string)
}

// RunTests starts the machine, waits for its end, and reports each test that has run there as a subtest.
func RunTests(t *testing.T, m Machine) {
	t.Helper()
	for _, name := range []string{"qemu-system-x86_64", "busybox", "cpio", "apt-get"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip("SKIP: ", err)
		}
	}
	dir := t.TempDir()
	folder := filepath.Join(dir, "guest")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	m.FillFolder(folder)
	script, err := os.ReadFile(m.Init)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "init.sh"), script, 0o644); err != nil {
		t.Fatal(err)
	}
	kernel := filepath.Join(CacheDir(t), "guest-kernel")
	RunScript(t, fetchKernel, kernel)
	initrd := filepath.Join(dir, "initrd")
	RunScript(t, makeInitrd, append([]string{kernel, filepath.Join(dir, "scratch"), initrd}, m.Modules...)...)
	ctx, cancel := context.WithTimeout(t.Context(), m.Within)
	defer cancel()
	cmd := m.qemuCommand(ctx, t, kernel, initrd, folder)
	console, err := cmd.CombinedOutput()
	if err != nil {
		t.Logf("qemu: %v", err)
	}
	out := filepath.Join(folder, "out")
	code, err := os.ReadFile(filepath.Join(folder, "code"))
	if err != nil {
		said, _ := os.ReadFile(out)
		t.Fatalf("the guest did not come to its end: %v\nconsole:\n%s\nout:\n%s", err, console, said)
	}
	remote.RunTests(t, exec.CommandContext(t.Context(), "sh", "-c", `cat "$0"; exit "$1"`, out, strings.TrimSpace(string(code))))
}

func (m Machine) qemuCommand(ctx context.Context, t *testing.T, kernel, initrd, folder string) *exec.Cmd {
	t.Helper()
	vmlinuz, err := filepath.Glob(kernel + "/boot/vmlinuz-*")
	if err != nil || len(vmlinuz) != 1 {
		t.Fatalf("kernels %v, %v", vmlinuz, err)
	}
	memory := m.Memory
	if memory == 0 {
		memory = 1536
	}
	share := func(tag, path, more string) string {
		return "local,mount_tag=" + tag + ",path=" + path + ",security_model=none,multidevs=remap" + more
	}
	// no_timer_check: on a busy machine the emulated timer is late, and the kernel would take that for a defect and stop.
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "1", "-m", strconv.Itoa(memory),
		"-nodefaults", "-display", "none", "-no-reboot", "-serial", "stdio",
		"-kernel", vmlinuz[0], "-initrd", initrd, "-append", "console=ttyS0 no_timer_check quiet panic=-1 cgroup_no_v1=all",
		"-virtfs", share("tree", m.Tree, ",readonly=on"), "-virtfs", share("kernelmodules", kernel+"/lib/modules", ",readonly=on"),
		"-virtfs", share("guest", folder, ""))
	cmd.WaitDelay = time.Second
	return cmd
}

// CacheDir returns the folder where the tests keep downloaded files.
func CacheDir(t *testing.T) string {
	t.Helper()
	dir, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "singularity-slurm")
}

// RunScript runs a script of /bin/sh.
func RunScript(t *testing.T, script string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "sh", append([]string{"-c", script, "script"}, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("the script failed: %v\n%s\nIt printed:\n%s", err, script, out)
	}
}

// BuildTests builds the tests of a package of this module, as a static program.
func BuildTests(t *testing.T, where, to string, args ...string) {
	t.Helper()
	args = append(append([]string{"test", "-c", "-o", to}, args...), "github.com/singularity-slurm/singularity-slurm/"+where)
	build := exec.CommandContext(t.Context(), "go", args...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go test -c failed: %v\n%s", err, out)
	}
}
