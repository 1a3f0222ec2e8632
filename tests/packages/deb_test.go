//go:build packages

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package packages

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const (
	shim = "/usr/lib/singularity-slurm/libsingshim.so"
	conf = "/etc/singularity-slurm/proxyd.yaml"
)

const systemctl = "/usr/local/sbin/systemctl"

// systemctlCalls returns the arguments of systemctl's calls since the last time, each once.
func (h *host) systemctlCalls() string {
	h.Helper()
	lines := strings.Split(strings.TrimSpace(h.readFile("asked")), "\n")
	h.writeFile("", "asked")
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), "; ")
}

// programs are the programs of the packages.
var programs = []string{"/usr/sbin/proxyd", "/usr/sbin/preemptd", "/usr/bin/singctl", "/usr/libexec/singularity-slurm/sing-warden", "/usr/libexec/singularity-slurm/sing-policy-tiers"}

// kept are files of jobs or of the administrator, which are in no package.
var kept = []string{"/etc/singularity-slurm/key", "/var/lib/singularity-slurm/preemptd.db", "/shared/singularity/store/chunk"}

// TestDeb is the life of an installation: the same host from the first step to the last.
func TestDeb(t *testing.T) {
	h := newHost(t, "forky")
	for _, path := range kept {
		h.writeFile("precious", path)
	}
	// systemd cannot run here: a script in the place of systemctl writes its arguments down.
	h.writeFile("", "run/systemd/system/here")
	h.writeFile("#!/bin/sh\necho \"$@\" >>/asked\n", systemctl)
	if err := os.Chmod(h.pathOn(systemctl), 0o755); err != nil {
		t.Fatal(err)
	}
	// A test cluster's hosts have no documentation.
	h.mustRun(append([]string{"dpkg", "-i", "--path-include=/usr/share/*"}, h.copyPackages("deb")...)...)
	if !t.Run("installed", func(t *testing.T) { (&host{t, h.root}).checkInstalled() }) {
		return
	}
	t.Run("upgraded", func(t *testing.T) { (&host{t, h.root}).checkUpgraded() })
	t.Run("removed", func(t *testing.T) { (&host{t, h.root}).checkRemoved() })
}

func (h *host) checkInstalled() {
	if out := h.mustRun("dpkg", "--audit"); out != "" {
		h.Errorf("dpkg --audit: %s", out)
	}
	if found := h.existingFiles(programs...); len(found) != len(programs) {
		h.Errorf("only %q are there", found)
	}
	h.writeFile("policies: [defrag, drain, elastic, power, starlark, tiers]\n", "all.yaml")
	for _, args := range [][]string{
		{"proxyd", "--version"}, {"preemptd", "--version"}, {"singctl", "--help"},
		{"preemptd", "config", "check"}, {"preemptd", "config", "check", "--config", "/all.yaml"}, {programs[len(programs)-1], "--help"},
	} {
		if out, ok := h.runCommand(args...); !ok {
			h.Errorf("%s: %s", strings.Join(args, " "), out)
		}
	}
	if got := h.systemctlCalls(); got != "daemon-reload" {
		h.Errorf("systemd was asked: %s", got)
	}
	if enabled, err := filepath.Glob(h.pathOn("etc/systemd/system/*/p*d*.*")); err != nil || len(enabled) > 0 {
		h.Errorf("enabled: %q %v", enabled, err)
	}
	for _, page := range []string{"man1/singctl.1", "man8/proxyd.8", "man8/preemptd.8"} {
		if _, err := os.Stat(h.pathOn("usr/share/man", page)); err != nil {
			h.Error(err)
		}
	}
	for _, page := range []string{
		"install.md", "policies.md", "policy-sdk.md", "proto/proxyd.proto", "proto/relay.proto", "proto/preemptd.proto", "proto/policy.proto",
	} {
		if raw, err := os.ReadFile(h.pathOn("usr/share/doc/singularity-slurm", page)); err != nil || len(raw) == 0 {
			h.Errorf("%s has %d bytes: %v", page, len(raw), err)
		}
	}
	// Slurm loads the plugin, as configured in the example.
	h.writeFile("ClusterName=x\nSlurmctldHost=localhost\nPlugStackConfig=/etc/slurm/plugstack.conf\nNodeName=localhost\n", "etc/slurm/slurm.conf")
	h.writeFile(h.readFile("usr/share/doc/singularity-slurm/plugstack.conf"), "etc/slurm/plugstack.conf")
	if out, _ := h.runCommand("sbatch", "--help"); !strings.Contains(out, "--singularity") {
		h.Errorf("sbatch knows no --singularity:\n%s", out)
	}
}

// checkUpgraded: the next release changes a default and the shim. The administrator's configuration stays, and a
// process goes on with its mapped shim.
func (h *host) checkUpgraded() {
	h.writeFile("shared: /shared/singularity\n", conf)
	job := h.commandOn("LD_PRELOAD="+shim, "sh", "-c", "echo runs; read end; echo done")
	in, err := job.StdinPipe()
	if err != nil {
		h.Fatal(err)
	}
	out, err := job.StdoutPipe()
	if err != nil {
		h.Fatal(err)
	}
	if err := job.Start(); err != nil {
		h.Fatal(err)
	}
	says := bufio.NewScanner(out)
	says.Scan()
	var before, after unix.Stat_t
	if err := unix.Stat(h.pathOn(shim), &before); err != nil {
		h.Fatal(err)
	}
	mapped := fmt.Sprintf("/proc/%d/maps", job.Process.Pid)
	if maps, err := os.ReadFile(mapped); err != nil || !strings.Contains(string(maps), "libsingshim.so") {
		h.Fatalf("the shim is not mapped: %v\n%s", err, maps)
	}

	h.mustRun("dpkg", "-i", "--force-confdef", "--force-confold", h.nextRelease())
	if got := h.mustRun("dpkg-query", "-W", "-f", "${Version}", "singularity-slurm-node"); got != "9.0" {
		h.Errorf("the upgraded package has version %s, want 9.0", got)
	}
	if got := h.systemctlCalls(); got != "daemon-reload; try-restart proxyd.service proxyd-gc.timer" {
		h.Errorf("systemd was asked: %s", got)
	}
	if got := h.readFile(conf); got != "shared: /shared/singularity\n" {
		h.Errorf("the configuration is now %q", got)
	}
	if got := h.readFile(conf + ".dpkg-dist"); !strings.Contains(got, "a new default") {
		h.Errorf("the new defaults are not beside it: %q", got)
	}
	if err := unix.Stat(h.pathOn(shim), &after); err != nil || after.Ino == before.Ino {
		h.Errorf("the shim was not replaced: inodes %d and %d: %v", before.Ino, after.Ino, err)
	}
	fmt.Fprintln(in, "end")
	if says.Scan(); says.Text() != "done" {
		h.Errorf("the job says %q", says.Text())
	}
	if err := job.Wait(); err != nil {
		h.Error(err)
	}
}

// nextRelease is the next release of the package for nodes.
func (h *host) nextRelease() string {
	h.Helper()
	dir := h.pathOn("next")
	if out, err := exec.Command("dpkg-deb", "-R", h.pathOn(h.copyPackages("deb", "node")[0]), dir).CombinedOutput(); err != nil {
		h.Fatalf("dpkg-deb: %v: %s", err, out)
	}
	var control []string
	for line := range strings.Lines(h.readFile("next/DEBIAN/control")) {
		if strings.HasPrefix(line, "Version:") {
			line = "Version: 9.0\n"
		}
		control = append(control, line)
	}
	h.writeFile(strings.Join(control, ""), "next/DEBIAN/control")
	h.writeFile(h.readFile("next", conf)+"# a new default\n", "next", conf)
	h.writeFile(h.readFile("next", shim)+"\x00", "next", shim)
	if out, err := exec.Command("dpkg-deb", "-b", "-Znone", dir, h.pathOn("next.deb")).CombinedOutput(); err != nil {
		h.Fatalf("dpkg-deb: %v: %s", err, out)
	}
	return "/next.deb"
}

func (h *host) checkRemoved() {
	names := []string{"singularity-slurm-node", "singularity-slurm-controller", "singularity-slurm-client"}
	h.mustRun(append([]string{"dpkg", "-r"}, names...)...)
	if got := h.systemctlCalls(); got != "daemon-reload; disable --now preemptd.service; disable --now proxyd.service proxyd-gc.timer proxyd-relay.service" {
		h.Errorf("systemd was asked: %s", got)
	}
	if left := h.existingFiles(append(programs, shim)...); len(left) > 0 {
		h.Errorf("left behind: %q", left)
	}
	if got := h.readFile(conf); got != "shared: /shared/singularity\n" {
		h.Errorf("the configuration is now %q", got)
	}
	h.mustRun(append([]string{"dpkg", "-P"}, names...)...)
	if left := h.existingFiles(conf, "/usr/libexec/singularity-slurm", "/usr/lib/singularity-slurm", "/usr/share/doc/singularity-slurm"); len(left) > 0 {
		h.Errorf("left behind: %q", left)
	}
	if found := h.existingFiles(kept...); len(found) != len(kept) {
		h.Errorf("of what is not the package's, only %q is there", found)
	}
}

// TestOtherSlurm: the plugin is not installed beside a Slurm of another release.
func TestOtherSlurm(t *testing.T) {
	h := newHost(t, "trixie")
	h.mustRun(append([]string{"dpkg", "-i"}, h.copyPackages("deb", "client")...)...)
	out, ok := h.runCommand(append([]string{"dpkg", "-i"}, h.copyPackages("deb", "node")...)...)
	if ok || !strings.Contains(out, "singularity-slurm-node depends on slurm-wlm-basic-plugins (>= 26.05)") {
		t.Errorf("dpkg -i beside another Slurm, want a failure that names the dependency; success: %v\n%s", ok, out)
	}
}

// TestSchedMDSlurm: the plugin is installed beside SchedMD's own package of its Slurm, slurm-smd, which stands in the place of
// Debian's packages, and not beside that of another release.
func TestSchedMDSlurm(t *testing.T) {
	h := newHost(t, "trixie")
	h.mustRun("dpkg", "--purge", "--force-depends", "slurm-wlm-basic-plugins")
	h.mustRun(append([]string{"dpkg", "-i"}, h.copyPackages("deb", "client")...)...)
	node := h.copyPackages("deb", "node")[0]
	install := func(version string) (string, bool) {
		h.mustRun("dpkg", "-i", h.emptyPackage("slurm-smd", version))
		return h.runCommand("dpkg", "-i", node)
	}
	if out, ok := install("24.11.5-1"); ok || !strings.Contains(out, "singularity-slurm-node depends on slurm-wlm-basic-plugins (>= 26.05) | slurm-smd (>= 26.05)") {
		t.Errorf("dpkg -i beside another release of slurm-smd, want a failure that names the dependency; success: %v\n%s", ok, out)
	}
	if out, ok := install("26.05.2-1"); !ok {
		t.Errorf("dpkg -i beside slurm-smd: %s", out)
	}
	if got := h.mustRun("dpkg-query", "-W", "-f", "${Status}", "singularity-slurm-node"); got != "install ok installed" {
		t.Errorf("the package is %s", got)
	}
}

// emptyPackage makes a package without files.
func (h *host) emptyPackage(name, version string) string {
	h.Helper()
	folder := name + "-" + version
	h.writeFile(fmt.Sprintf("Package: %s\nVersion: %s\nArchitecture: all\nMaintainer: nobody <nobody@example.org>\nDescription: empty\n", name, version), folder, "DEBIAN/control")
	if out, err := exec.Command("dpkg-deb", "-b", "-Znone", h.pathOn(folder), h.pathOn(folder+".deb")).CombinedOutput(); err != nil {
		h.Fatalf("dpkg-deb: %v: %s", err, out)
	}
	return "/" + folder + ".deb"
}
