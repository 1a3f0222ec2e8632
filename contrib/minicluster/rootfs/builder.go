// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package rootfs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// BuilderArg is the hidden first argument that makes a program the builder.
const BuilderArg = "rootfs-builder"

// File descriptors that the builder inherits beside standard output, which goes to the parent.
const (
	lifelineFD = 3 // end of file when the parent is gone
	lockFD     = 4 // the variant's lock; held by being open
)

// Main is the builder. A program that calls Ensure must, before anything else:
//
//	if len(os.Args) > 1 && os.Args[1] == rootfs.BuilderArg {
//		os.Exit(rootfs.Main(os.Args[2:]))
//	}
//
// args is the command that builds. Main runs the command in the current folder, writes errors to
// standard output, and returns the exit code. Main is meant for the first process of a new PID and
// mount namespace and refuses to run in any other process.
func Main(args []string) int {
	if os.Getpid() != 1 || len(args) == 0 {
		fmt.Fprintln(os.Stdout, "E: the builder is started by rootfs.Ensure only")
		return 2
	}
	gone := make(chan struct{})
	go watchLifeline(gone)
	unix.CloseOnExec(lifelineFD)
	unix.CloseOnExec(lockFD)

	code, err := superviseBuilder(args, gone)
	killAll()
	if err != nil {
		fmt.Fprintf(os.Stdout, "E: %v\n", err)
		return 1
	}
	return code
}

// watchLifeline closes gone when the parent has ended.
func watchLifeline(gone chan<- struct{}) {
	var b [1]byte
	for {
		n, err := unix.Read(lifelineFD, b[:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if n <= 0 {
			close(gone)
			return
		}
	}
}

// superviseBuilder runs the command until the command or the parent ends, and returns its exit
// code. Other processes may be left.
func superviseBuilder(args []string, gone <-chan struct{}) (int, error) {
	if err := ownMounts(); err != nil {
		return 0, err
	}
	unix.Umask(0o022)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = buildEnv(os.Environ())
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stdout
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	ended := make(chan unix.WaitStatus, 1)
	go reapChildren(cmd.Process.Pid, ended)
	select {
	case ws := <-ended:
		if ws.Signaled() {
			return 0, fmt.Errorf("%s: killed by signal %d", args[0], ws.Signal())
		}
		return ws.ExitStatus(), nil
	case <-gone:
		return 1, nil
	}
}

// ownMounts cuts the namespace's mounts off from the host's, so that mounts of the build are not
// seen outside, and shows the namespace's own processes in /proc.
func ownMounts() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	return nil
}

// buildEnv keeps only the caller's variables about proxies. Other settings of a user (locale, Perl,
// apt) must not change the content of a tree.
func buildEnv(environ []string) []string {
	env := []string{
		"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8",
		"DEBIAN_FRONTEND=noninteractive", "DEBCONF_NONINTERACTIVE_SEEN=true",
	}
	for _, kv := range environ {
		switch name, _, _ := strings.Cut(kv, "="); strings.ToLower(name) {
		case "http_proxy", "https_proxy", "no_proxy", "all_proxy":
			env = append(env, kv)
		}
	}
	return env
}

// reapChildren waits for every child, as the first process of a namespace must, and sends the exit
// of the child pid. reapChildren returns when no child is left.
func reapChildren(pid int, ended chan<- unix.WaitStatus) {
	for {
		var ws unix.WaitStatus
		got, err := unix.Wait4(-1, &ws, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return
		case got == pid:
			ended <- ws
		}
	}
}

// killAll ends every other process of the namespace and returns when they are gone. The kernel
// would do the same when we end, but only after it has closed our files, and the lock must not be
// free while another process still writes.
func killAll() {
	for {
		err := unix.Kill(-1, syscall.SIGKILL)
		if errors.Is(err, unix.ESRCH) {
			return
		}
		if _, err := unix.Wait4(-1, nil, 0, nil); errors.Is(err, unix.ECHILD) {
			return
		}
	}
}
