// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/wire"
)

// exitStatus is the exit status of a program. This error is not printed.
type exitStatus int

func (s exitStatus) Error() string { return "exit status " + strconv.Itoa(int(s)) }

const runExample = `  proxyd run --soft 2 -- ./matrixMul
  proxyd run --soft 4 --on 2 -- ./train --ranks 4
  proxyd run --cuda -- python3 train.py
  proxyd run --soft 1 --memory 512M -- ./train --epochs 2`

// runCommand runs a program over devices of its own.
func runCommand() *cobra.Command {
	o := &deviceOptions{}
	var real bool
	var shim, blas string
	c := &cobra.Command{
		Use: "run [flags] -- PROGRAM [ARG…]", Short: "Run a program over private device servers, without Slurm and without root",
		Long: `Run a program of the CUDA driver over devices of its own: software GPUs, or with --cuda those of the
machine, held by a device server that lives as long as the program. All processes of the program share them, each with its own memory.

It returns what the program returns: its exit status, or 128 + N if signal N ended it.`,
		Example: runExample,
		RunE: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return fmt.Errorf("run: no PROGRAM is named; %w", errUsage)
			case blas != "" && blas != wire.BlasNative && blas != wire.BlasVendor:
				return fmt.Errorf("run: --blas %q: it is vendor or native; %w", blas, errUsage)
			case real && blas == wire.BlasNative:
				return fmt.Errorf("run: --blas native: real GPUs have the vendor's cuBLAS alone; %w", errUsage)
			case real:
				o.kind = kindCuda
				if _, err := o.addressRange(); err != nil {
					return fmt.Errorf("run: %w", err)
				}
				return runProgram(o, shim, blas, args)
			}
			o.kind = kindSoft
			cfg, err := o.softConfig()
			if err == nil {
				err = o.checkOrder(len(cfg.Memory))
			}
			if err == nil {
				_, err = o.addressRange()
			}
			if err != nil {
				return fmt.Errorf("run: %w", err)
			}
			return runProgram(o, shim, blas, args)
		},
	}
	c.Flags().SetInterspersed(false) // options behind the program are the program's
	o.addDeviceFlags(c)
	c.Flags().BoolVar(&real, "cuda", false, "use the machine's real GPUs instead of software ones")
	c.Flags().StringVar(&blas, "blas", "", "have matrix products of cuBLAS be computed on software GPUs by `WHAT`: vendor, that is cuBLAS itself, or native,\nthe software GPU, which is many times faster and rounds in an order of its own\n(default: what "+wire.BlasEnv+" says, else vendor)")
	c.Flags().StringVar(&shim, "shim", "", "load `FILE` into the program instead of the libsingshim-device.so that is installed")
	return c
}

// runFolder begins the names of the folders in which a run has its socket, and its links to the shim.
const runFolder = "proxyd-run-"

// runProgram starts a device server and the program, and ends like the program. blas is the value of wire.BlasEnv; "":
// the variable is not changed.
func runProgram(o *deviceOptions, shim, blas string, args []string) (err error) {
	if shim, err = findShim(shim); err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", runFolder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	o.folder, o.socket = folder, filepath.Join(folder, "device")
	s, err := startServer(o)
	if err != nil {
		return err
	}
	defer s.stopServer()
	env, err := shimEnvironment(os.Environ(), folder, shim)
	if err != nil {
		return err
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if blas != "" {
		env = setVariable(env, wire.BlasEnv, blas)
	}
	cmd.Env = setVariable(env, wire.DeviceEnv, o.socket)
	return s.runProgram(cmd)
}

// findShim finds libsingshim-device.so: the named file, the file beside this program, or the
// installed file.
func findShim(named string) (string, error) {
	const name = "libsingshim-device.so"
	places := []string{named}
	if named == "" {
		self, err := os.Executable()
		if err != nil {
			return "", err
		}
		places = []string{
			filepath.Join(filepath.Dir(self), name),
			filepath.Join(filepath.Dir(self), "..", "lib", "singularity-slurm", name),
			filepath.Join(libexec, "..", "..", "lib", "singularity-slurm", name),
		}
	}
	for _, place := range places {
		if st, err := os.Stat(place); err == nil && st.Mode().IsRegular() {
			return filepath.Abs(place)
		}
	}
	return "", fmt.Errorf("no %s at %s; --shim names one", name, strings.Join(places, " or "))
}

// libraries are the names under which programs look for the libraries that the shim replaces.
var libraries = []string{"libcuda.so.1", "libcuda.so", "libnccl.so.2", "libnvidia-ml.so.1"}

// shimEnvironment has the shim loaded into programs, and found where they look for a driver. For
// this, links are made in a folder. The folder's name must have no blank and no colon, which
// separate names in these variables.
func shimEnvironment(env []string, folder, shim string) ([]string, error) {
	preload := filepath.Join(folder, filepath.Base(shim))
	if strings.ContainsAny(folder, ": \t\n") {
		return nil, fmt.Errorf("TMPDIR: %q cannot be preloaded from: there is a space or a colon in it", folder)
	}
	for _, name := range append([]string{filepath.Base(shim)}, libraries...) {
		if err := os.Symlink(shim, filepath.Join(folder, name)); err != nil {
			return nil, err
		}
	}
	env = prependVariable(withoutShim(env), "LD_PRELOAD", preload)
	return prependVariable(env, "LD_LIBRARY_PATH", folder), nil
}

// withoutShim removes the shim of an outer run from the preloaded libraries of env: a program has a single shim.
func withoutShim(env []string) []string {
	out := make([]string, 0, len(env))
	for _, v := range env {
		if list, ok := strings.CutPrefix(v, "LD_PRELOAD="); ok {
			files := strings.FieldsFunc(list, func(r rune) bool { return r == ':' || r == ' ' })
			files = slices.DeleteFunc(files, func(f string) bool { return strings.HasPrefix(filepath.Base(filepath.Dir(f)), runFolder) })
			v = "LD_PRELOAD=" + strings.Join(files, ":")
		}
		out = append(out, v)
	}
	return out
}

// prependVariable puts value before the present value of the variable name.
func prependVariable(env []string, name, value string) []string {
	out := make([]string, 0, len(env)+1)
	for _, v := range env {
		if old, ok := strings.CutPrefix(v, name+"="); !ok {
			out = append(out, v)
		} else if old != "" {
			value += ":" + old
		}
	}
	return append(out, name+"="+value)
}

// privateServer is the device server of a single program.
type privateServer struct {
	cmd      *exec.Cmd
	lifeline *os.File
	ended    chan serverEnd // once
}

// serverEnd is how a device server has ended.
type serverEnd struct{ err error }

// serverArguments returns the arguments of the device server's process.
func (o *deviceOptions) serverArguments() []string {
	args := []string{"device", "--kind", o.kind, "--socket", o.socket, "--soft", strconv.Itoa(o.soft), "--on", strconv.Itoa(o.on), "--memory", o.memory,
		"--capability", o.shows, "--kernels", o.kernels, "--rung", o.rung, "--ready", "3", "--lifeline", "4", "--remove", o.folder}
	if o.lie != "" {
		args = append(args, "--addresses", o.lie)
	}
	if o.address != "" {
		args = append(args, "--address", o.address)
	}
	for _, i := range o.order {
		args = append(args, "--order", strconv.Itoa(i))
	}
	if o.regroup {
		args = append(args, "--regroup")
	}
	if o.code != "" {
		args = append(args, "--code-cache", o.code)
	}
	if o.status != "" {
		args = append(args, "--status", o.status)
	}
	if o.exact {
		args = append(args, "--exact")
	}
	if o.verbose {
		args = append(args, "--verbose")
	}
	return args
}

// startServer returns when the server listens.
func startServer(o *deviceOptions) (*privateServer, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	told, ready, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer told.Close()
	theirs, lifeline, err := os.Pipe()
	if err != nil {
		ready.Close()
		return nil, err
	}
	s := &privateServer{cmd: exec.Command(self, o.serverArguments()...), lifeline: lifeline, ended: make(chan serverEnd, 1)}
	s.cmd.Stderr = os.Stderr
	s.cmd.Env = withoutVisibleDevices(os.Environ())
	if o.kind == kindCuda {
		s.cmd.Stdout = os.Stdout // the output of kernels
	}
	s.cmd.ExtraFiles = []*os.File{ready, theirs}
	// Signals that a terminal sends to the program are not for the server, which must outlive the
	// program.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = s.cmd.Start()
	ready.Close()
	theirs.Close()
	if err != nil {
		lifeline.Close()
		return nil, fmt.Errorf("start a device server: %w", err)
	}
	go func() { s.ended <- serverEnd{s.cmd.Wait()} }()
	if _, err := bufio.NewReader(told).ReadString('\n'); err != nil {
		lifeline.Close()
		return nil, fmt.Errorf("the device server did not start: %w", errors.Join((<-s.ended).err, ignoreEOF(err)))
	}
	return s, nil
}

// withoutVisibleDevices is the environment of a device server, which has all devices and shows a program the devices in the
// program's CUDA_VISIBLE_DEVICES. With the variable, the driver would choose devices first, and the server would choose
// among the rest.
func withoutVisibleDevices(env []string) []string {
	return slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, "CUDA_VISIBLE_DEVICES=") })
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// stopServer ends the server and waits for its end. A server that does not end by itself within
// its grace is killed.
func (s *privateServer) stopServer() {
	s.lifeline.Close()
	late := time.NewTimer(2 * endGrace)
	defer late.Stop()
	select {
	case <-s.ended: // the server has printed its error
	case <-late.C:
		_ = s.cmd.Process.Kill()
		<-s.ended
	}
}

// passed are the signals that are passed on to the program and do not stop proxyd. Other signals
// stop both processes, or neither.
var passed = []os.Signal{
	unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM, unix.SIGCONT, unix.SIGWINCH,
}

// runProgram runs the program to its end, and reports a server that dies before.
func (s *privateServer) runProgram(cmd *exec.Cmd) error {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, passed...)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "proxyd:", err)
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
			return exitStatus(127)
		}
		return exitStatus(126)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	died := s.ended
	for {
		select {
		case sig := <-signals:
			if !fromTerminal(sig) {
				_ = cmd.Process.Signal(sig) // the program may have ended
			}
		case end := <-died:
			fmt.Fprintf(os.Stderr, "proxyd: the device server has died (%v); the program's devices are gone\n", end.err)
			s.ended <- end // for stopServer
			died = nil
		case err := <-done:
			return endLike(cmd.ProcessState, err)
		}
	}
}

// fromTerminal tells whether a terminal has sent the signal to the program as well: a terminal
// signals all processes in its foreground.
func fromTerminal(sig os.Signal) bool {
	if sig != unix.SIGINT && sig != unix.SIGQUIT && sig != unix.SIGWINCH && sig != unix.SIGCONT {
		return false
	}
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// endLike returns the program's status. The status of a program that a signal killed is as in
// shells.
func endLike(state *os.ProcessState, err error) error {
	if state == nil {
		return err
	}
	ws, ok := state.Sys().(syscall.WaitStatus)
	switch {
	case ok && ws.Signaled():
		return exitStatus(128 + int(ws.Signal()))
	case state.ExitCode() != 0:
		return exitStatus(state.ExitCode())
	}
	return nil
}

// setVariable sets a variable.
func setVariable(env []string, name, value string) []string {
	out := slices.DeleteFunc(slices.Clone(env), func(v string) bool { return strings.HasPrefix(v, name+"=") })
	return append(out, name+"="+value)
}
