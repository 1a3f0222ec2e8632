//go:build packages

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package packages installs the deb and rpm packages of `make packages` as an administrator
// would, into the root file systems of test clusters, which stay as they are. The package needs root
// and runs under the build tag "packages".
package packages

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

var (
	made  = flag.String("packages", "../../bin/packages", "`folder` with the packages, for the Slurm of forky")
	trees = flag.String("trees", "/var/cache/minicluster", "`folder` with the root file systems")
)

// inside marks a process with a mount namespace of its own: its mounts end with the process, also if the process is
// killed.
const inside = "PACKAGES_TEST_INSIDE"

func TestMain(m *testing.M) {
	flag.Parse()
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "tests/packages needs root")
		os.Exit(1)
	}
	if os.Getenv(inside) == "" {
		cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
		cmd.Env = append(os.Environ(), inside+"=1")
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL}
		err := cmd.Run()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(cmd.ProcessState.ExitCode())
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		fmt.Fprintln(os.Stderr, "make mounts private:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// host is a root file system of a suite; changes are seen by this test alone.
type host struct {
	*testing.T
	root string
}

var treeName = regexp.MustCompile(`-[0-9a-f]+$`)

// newestTree returns the newest root file system of a suite.
func newestTree(t *testing.T, suite string) string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(*trees, suite+"-*"))
	if err != nil {
		t.Fatal(err)
	}
	all = slices.DeleteFunc(all, func(path string) bool {
		return treeName.FindString(path) != strings.TrimPrefix(filepath.Base(path), suite)
	})
	if len(all) == 0 {
		t.Fatalf("there is no root file system of %s in %s: make trees", suite, *trees)
	}
	return slices.MaxFunc(all, func(a, b string) int { return modifiedTime(t, a) - modifiedTime(t, b) })
}

func newHost(t *testing.T, suite string) *host {
	t.Helper()
	tree := newestTree(t, suite)
	h := &host{t, filepath.Join(t.TempDir(), "root")}
	upper, work := h.root+".upper", h.root+".work"
	for _, dir := range []string{h.root, upper, work} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	h.mount("overlay", "", "overlay", 0, fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", tree, upper, work))
	h.mount("proc", "proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	h.mount("/dev", "dev", "", unix.MS_BIND, "")
	return h
}

func modifiedTime(t *testing.T, path string) int {
	t.Helper()
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return int(st.ModTime().Unix())
}

func (h *host) mount(source, target, kind string, flags uintptr, data string) {
	h.Helper()
	target = h.pathOn(target)
	if err := unix.Mount(source, target, kind, flags, data); err != nil {
		h.Fatalf("mount %s: %v", target, err)
	}
	h.Cleanup(func() {
		if err := unix.Unmount(target, unix.MNT_DETACH); err != nil {
			h.Errorf("unmount %s: %v", target, err)
		}
	})
}

func (h *host) pathOn(parts ...string) string {
	return filepath.Join(append([]string{h.root}, parts...)...)
}

// commandOn returns a command that runs on the host.
func (h *host) commandOn(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(h.Context(), "/usr/bin/env", append([]string{"-i", "PATH=/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive"}, args...)...)
	cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Chroot: h.root, Pdeathsig: unix.SIGKILL}
	return cmd
}

// runCommand runs a command on the host, and returns the output and whether the command succeeded.
func (h *host) runCommand(args ...string) (string, bool) {
	h.Helper()
	out, err := h.commandOn(args...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		h.Fatal(err)
	}
	return string(out), err == nil
}

// mustRun runs a command on the host, which must succeed, and returns the output.
func (h *host) mustRun(args ...string) string {
	h.Helper()
	out, ok := h.runCommand(args...)
	if !ok {
		h.Fatalf("%s failed:\n%s", strings.Join(args, " "), out)
	}
	return out
}

func (h *host) writeFile(text string, path ...string) {
	h.Helper()
	file := h.pathOn(path...)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		h.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		h.Fatal(err)
	}
}

func (h *host) readFile(path ...string) string {
	h.Helper()
	raw, err := os.ReadFile(h.pathOn(path...))
	if err != nil {
		h.Fatal(err)
	}
	return string(raw)
}

// existingFiles reports which of some files there are.
func (h *host) existingFiles(paths ...string) []string {
	var found []string
	for _, p := range paths {
		if _, err := os.Lstat(h.pathOn(p)); err == nil {
			found = append(found, p)
		}
	}
	return found
}

// copyPackages copies the packages of a kind to where the host sees them, and returns their paths: of a single name, or
// all.
func (h *host) copyPackages(kind string, names ...string) []string {
	h.Helper()
	if len(names) == 0 {
		names = []string{"client", "node", "controller"}
	}
	var all []string
	for _, name := range names {
		found, err := filepath.Glob(filepath.Join(*made, "singularity-slurm-"+name+`[_\-]*.`+kind))
		if err != nil || len(found) != 1 {
			h.Fatalf("want one %s of %s in %s, found %q: make packages", kind, name, *made, found)
		}
		raw, err := os.ReadFile(found[0])
		if err != nil {
			h.Fatal(err)
		}
		h.writeFile(string(raw), "packages", filepath.Base(found[0]))
		all = append(all, "/packages/"+filepath.Base(found[0]))
	}
	return all
}
