//go:build cluster

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestGuest runs the tests of capsules and of the conductor that need a node with cgroup v2 and nothing else, as
// a virtual machine: this one may have v1 controllers. A single minute.
func TestGuest(t *testing.T) {
	runGuest(t, guest{
		script: "testdata/guest/run.sh",
		within: 10 * time.Minute,
		build: func(t *testing.T, folder string) {
			buildCapsuleTests(t, folder)
			buildTestProgram(t, "proxyd/checkpoint", filepath.Join(folder, "checkpoint.test"))
		},
	})
}

// TestStoreOnNFS runs the store's tests on an NFS server, in a virtual machine with a kernel that has such a server.
// The random tests have writers and collectors on two mounts that share nothing but the server, as two nodes.
func TestStoreOnNFS(t *testing.T) {
	runGuest(t, guest{
		script:  "testdata/guest/nfs.sh",
		within:  40 * time.Minute,
		modules: []string{"nfsv4", "nfsd"},
		build: func(t *testing.T, folder string) {
			for _, name := range []string{"store", "posix"} {
				where := map[string]string{"store": "proxyd/store", "posix": "proxyd/store/posix"}[name]
				buildTestProgram(t, where, filepath.Join(folder, "store", name+".test"))
			}
		},
	})
}

// buildTestProgram builds the tests of a package, static.
func buildTestProgram(t *testing.T, where, to string) {
	t.Helper()
	build := exec.Command("go", "test", "-c", "-o", to, "github.com/singularity-slurm/singularity-slurm/"+where)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// guest is a virtual machine: its first process, the kernel's modules that the tests need, and what builds the programs
// that are in /guest.
type guest struct {
	script  string
	within  time.Duration
	modules []string
	build   func(t *testing.T, folder string)
}

// runGuest runs Go's tests in a virtual machine with the newest suite's root file system and passes on how they
// ended. The machine is emulated, for /dev/kvm may be of no use.
func runGuest(t *testing.T, g guest) {
	t.Helper()
	for _, name := range []string{"qemu-system-x86_64", "busybox", "cpio", "apt-get"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip("SKIP: ", err)
		}
	}
	tree := forkyTree(t)
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	kernel := filepath.Join(cache, "singularity-slurm", "guest-kernel")
	dir := t.TempDir()
	folder := filepath.Join(dir, "guest")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	g.build(t, folder)
	initrd := filepath.Join(dir, "initrd")
	for _, script := range []string{
		"testdata/guest/kernel.sh " + kernel,
		"testdata/guest/initrd.sh " + kernel + " " + filepath.Join(dir, "scratch") + " " + strings.Join(g.modules, " ") + " >" + initrd,
		"cp " + g.script + " " + folder + "/run.sh",
	} {
		if out, err := exec.Command("sh", "-c", script).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", script, err, out)
		}
	}
	vmlinuz, err := filepath.Glob(kernel + "/boot/vmlinuz-*")
	if err != nil || len(vmlinuz) != 1 {
		t.Fatalf("kernels %v, %v", vmlinuz, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), g.within)
	defer cancel()
	share := func(tag, path, more string) string {
		return "local,mount_tag=" + tag + ",path=" + path + ",security_model=none,multidevs=remap" + more
	}
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "1", "-m", "1536",
		"-nodefaults", "-display", "none", "-no-reboot", "-serial", "stdio",
		"-kernel", vmlinuz[0], "-initrd", initrd, "-append", "console=ttyS0 quiet panic=-1 cgroup_no_v1=all",
		"-virtfs", share("tree", tree, ",readonly=on"), "-virtfs", share("guest", folder, ""))
	cmd.WaitDelay = time.Second
	console, err := cmd.CombinedOutput()
	if err != nil {
		t.Logf("qemu: %v", err)
	}
	said, _ := os.ReadFile(filepath.Join(folder, "out"))
	code, err := os.ReadFile(filepath.Join(folder, "code"))
	if err != nil {
		t.Fatalf("the guest did not come to its end: %v\nconsole:\n%s\nout:\n%s", err, console, said)
	}
	relayTests(t, exec.CommandContext(ctx, "sh", "-c", `cat "$0"; exit `+strings.TrimSpace(string(code)), filepath.Join(folder, "out")))
}

// forkyTree returns the root file system of the newest suite, in minicluster's cache.
func forkyTree(t *testing.T) string {
	t.Helper()
	raiseCluster(t, "t-guest", "--suite", "forky", "--nodes", "1") // builds a tree that is missing
	trees, err := filepath.Glob("/var/cache/minicluster/forky-[0-9a-f]*")
	if err != nil {
		t.Fatal(err)
	}
	var newest string
	var at time.Time
	for _, tree := range trees {
		if st, err := os.Lstat(filepath.Join(tree, "usr/sbin/slurmd")); err == nil && st.ModTime().After(at) {
			newest, at = tree, st.ModTime()
		}
	}
	if newest == "" {
		t.Fatalf("no root file system among %v", trees)
	}
	return newest
}
