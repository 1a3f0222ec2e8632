// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package life

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Descriptors that the process starts with.
const (
	gateFD    = 3
	controlFD = 4
	socketFD  = 5 // not of a process for tenants
)

// processArguments returns the arguments of the server's process.
func (m *serverStart) processArguments() []string {
	if m.Helper != "" {
		return []string{"proxyd", m.Helper, "--gate", strconv.Itoa(gateFD), "--control", strconv.Itoa(controlFD)}
	}
	args := []string{"proxyd", "device", "--gate", strconv.Itoa(gateFD), "--control", strconv.Itoa(controlFD)}
	if m.host {
		args = append(args, "--tenants")
	} else {
		args = append(args, "--listen", strconv.Itoa(socketFD))
	}
	args = append(args, "--soft", strconv.Itoa(m.Count))
	if m.Kind != "" {
		args = append(args, "--kind", m.Kind)
	}
	if m.Exact {
		args = append(args, "--exact")
	}
	if m.Spare != 0 {
		args = append(args, "--spare", strconv.Itoa(m.Spare))
	}
	if m.Memory != "" {
		args = append(args, "--memory", m.Memory)
	}
	if m.Capability != "" {
		args = append(args, "--capability", m.Capability)
	}
	if m.Kernels != "" {
		args = append(args, "--kernels", m.Kernels)
	}
	if m.Address != "" {
		args = append(args, "--address", m.Address)
	}
	if m.Self != 0 {
		args = append(args, "--self", strconv.Itoa(m.Self))
	}
	if m.Order != nil {
		args = append(args, "--order", strings.Trim(strings.Join(strings.Fields(fmt.Sprint(m.Order)), ","), "[]"))
	}
	if m.Regroup {
		args = append(args, "--regroup")
	}
	if m.await {
		args = append(args, "--await")
	}
	if m.Verbose {
		args = append(args, "--verbose")
	}
	return args
}

// processEnvironment returns the environment of the server's process: it has only the variable that selects
// the devices which the driver shows.
func (m *serverStart) processEnvironment() []string {
	if m.GPUs == nil {
		return []string{}
	}
	return []string{"CUDA_VISIBLE_DEVICES=" + strings.Join(m.GPUs, ",")}
}

func (m *serverStart) makeProcess(context.Context) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	theirs, gate, err := os.Pipe()
	if err != nil {
		return err
	}
	defer theirs.Close()
	m.gate = gate
	program := m.Program
	if program == "" {
		program = "/proc/self/exe"
	}
	pidfd := -1
	sys := &syscall.SysProcAttr{Setsid: true, PidFD: &pidfd}
	if m.group != nil {
		sys.UseCgroupFD, sys.CgroupFD = true, int(m.group.Fd())
	}
	var files []uintptr
	for _, f := range []*os.File{null, null, m.log, theirs, m.control, m.devices} {
		if f != nil {
			files = append(files, f.Fd())
		}
	}
	pid, err := syscall.ForkExec(program, m.processArguments(), &syscall.ProcAttr{Dir: "/", Env: m.processEnvironment(), Files: files, Sys: sys})
	if err != nil {
		return fmt.Errorf("start %s: %w", program, err)
	}
	if pidfd >= 0 {
		unix.Close(pidfd) // recordProcess opens the pidfd again, as Find does
	}
	m.rec.PID = pid
	return nil
}

// reapChild waits for a child of this process.
func reapChild(pid int) {
	for {
		if _, err := syscall.Wait4(pid, nil, 0, nil); !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}
