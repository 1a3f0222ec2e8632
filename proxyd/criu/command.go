// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
)

// folders are searched for the programs that this package runs: a library should not depend on the PATH of its process.
var folders = []string{"/usr/local/sbin", "/usr/sbin", "/usr/local/bin", "/usr/bin", "/sbin", "/bin"}

// findProgram returns the path of a program; an *UnsupportedHost if it is not installed.
func findProgram(name string) (string, error) {
	for _, dir := range folders {
		path := filepath.Join(dir, name)
		if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", &UnsupportedHost{Reason: name + " is not installed", Advice: advice[name]}
}

// quiet is the environment of the programs that this package runs. LANG is for criu's log, in which this package looks
// for reasons.
var quiet = []string{"PATH=" + strings.Join(folders, ":"), "LANG=C"}

// joinable are the namespaces of a capsule in nsenter's words. init itself is no member of the time namespace, and the
// kernel may not have time namespaces.
var joinable = []struct{ option, file string }{
	{"--mount", "mnt"}, {"--net", "net"}, {"--uts", "uts"}, {"--ipc", "ipc"}, {"--time", "time_for_children"}, {"--pid", "pid"},
}

// gateOptions makes criu call the gate. The gate costs some 20 ms.
func gateOptions(args []string) []string { return append(args, "--action-script", gateName) }

// command is criu inside the namespaces of a capsule's init.
//
// nsenter joins the namespaces, and not a thread of this process: a process with threads cannot join a time namespace
// (kernel/time/namespace.c, timens_install).
type command struct {
	init     int
	as       *rights  // nil: root's
	filtered bool     // by dumpFilter
	before   []string // a program and its arguments, which runs setpriv
	cgroup   *os.File
	noIPC    bool     // criu stays out of the capsule's IPC namespace
	preload  string   // a library that is loaded into criu
	env      []string // variables beside the usual ones
	args     []string
	files    []*os.File // from descriptor imagesFD on
}

// buildCommand returns the command to start, and the files to close after its start.
func (c command) buildCommand() (cmd *exec.Cmd, closing []*os.File, err error) {
	var paths [3]string
	for i, name := range []string{"nsenter", "setpriv", "criu"} {
		if paths[i], err = findProgram(name); err != nil {
			return nil, nil, err
		}
	}
	defer func() {
		if err != nil {
			localsock.CloseAll(closing)
		}
	}()
	// The gate is run for the first time before criu goes to its images folder.
	args := []string{fmt.Sprintf("--wd=/proc/self/fd/%d", imagesFD)}
	files := c.files
	for _, ns := range joinable {
		if ns.file == "ipc" && c.noIPC {
			continue
		}
		f, err := os.Open(fmt.Sprintf("/proc/%d/ns/%s", c.init, ns.file))
		if errors.Is(err, fs.ErrNotExist) && ns.file == "time_for_children" {
			continue
		}
		if err != nil {
			return nil, closing, fmt.Errorf("the capsule's namespaces: %w", err)
		}
		closing = append(closing, f)
		args = append(args, fmt.Sprintf("%s=/proc/self/fd/%d", ns.option, imagesFD+len(files)))
		files = append(files, f)
	}
	args = append(append(args, "--"), c.before...)
	if c.as != nil {
		limited, err := c.as.setprivArguments()
		if err != nil {
			return nil, closing, err
		}
		args = append(append(append(args, paths[1]), limited...), "--")
	}
	cmd = exec.Command(paths[0], append(append(args, paths[2]), c.args...)...)
	cmd.Env = quiet
	if c.as != nil {
		cmd.Env = append(slices.Clone(quiet), "XDG_RUNTIME_DIR=.") // the images folder, where kerndat's copy is
	}
	cmd.Env = append(slices.Clone(cmd.Env), c.env...)
	if c.preload != "" {
		cmd.Env = append(cmd.Env, "LD_PRELOAD="+c.preload)
	}
	cmd.Dir = "/"
	cmd.ExtraFiles = files
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if c.cgroup != nil {
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(c.cgroup.Fd())
	}
	// A process that keeps the log open for longer does not belong to this package.
	cmd.WaitDelay = 5 * time.Second
	return cmd, closing, nil
}

// confineDump limits the rights, the memory and the system calls of c at a dump of p.
func (c *command) confineDump(p Program) error {
	var err error
	if c.before, err = boundMemory(); err != nil || p.UID == 0 {
		return err
	}
	if err := cgroup(p.Cgroup).lendFreezer(); err != nil {
		return err
	}
	groups := p.Groups
	if p.Cgroup != "" {
		groups = append(slices.Clone(groups), freezeGroup)
	}
	c.as = &rights{uid: p.UID, gid: p.GID, groups: groups, keep: dumpCapabilities, bounded: true}
	c.args = append(c.args, "--unprivileged")
	filters, err := usesSeccomp(p)
	c.filtered = !filters
	return err
}

// start starts the command that buildCommand has built.
func (c command) start(cmd *exec.Cmd) error {
	if c.filtered {
		return startFiltered(cmd)
	}
	return cmd.Start()
}

// commonOptions are the options of every operation, without the gate's. Configuration files are the node's business,
// not this package's. Below -v3, criu does not log enough of its work. With --ext-unix-sk a datagram socket that is
// connected to another program of the capsule is connected to the path again; a stream is refused all the same.
// Connections to outside of the job are in outside.go.
func commonOptions(operation string) []string {
	return []string{operation, "--no-default-config", "--stream", "--images-dir", fmt.Sprintf("/proc/self/fd/%d", imagesFD),
		"-v3", "--timeout", "30",
		"--tcp-established", "--network-lock", "skip", "--file-locks", "--ext-unix-sk", "--manage-cgroups=ignore"}
}
