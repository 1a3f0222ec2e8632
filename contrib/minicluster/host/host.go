// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package host is a machine of the cluster: its first process, and the root file system of that
// process. The keeper starts this program again as PID 1 of fresh namespaces; the first process
// builds the host's root, reports that, and from then on only reaps orphans. When the first process
// ends, for any reason, the kernel ends the host.
package host

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// Arg is the hidden first argument by which the program is a host's first process.
const Arg = "host-init"

// Spec is the input of a host's first process.
type Spec struct {
	Name   string            // host name
	Addr   string            // address of eth0 with its prefix, "10.77.0.2/24"
	Known  []string          // addresses of hosts that need no ARP: their MAC addresses follow from them
	Lower  []string          // read-only layers of the root, uppermost first
	Upper  string            // the host's own disk: outlives the host's processes
	Work   string            // overlay's scratch folder, beside Upper
	Root   string            // where the root is put together
	Shared string            // seen as /shared
	Logs   string            // seen as /var/log/slurm
	Opt    map[string]string // folders by the names that they have in /opt, read-only
	GPUs   int               // number of /dev/sgpuN
}

// File descriptors that the first process starts with.
const (
	specFD  = 3 // the Spec as JSON, then end of file
	readyFD = 4 // "" once the host stands, else the reason why not
)

// Init is a host's first process. Init waits for Boot before anything else.
type Init struct {
	Process *os.Process
	spec    *os.File
	ready   *os.File
}

// Start starts the host's first process in namespaces of its own. The caller puts the network
// interface eth0 into them, then calls Boot. label is the command line that ps shows.
func Start(label string) (*Init, error) {
	specR, specW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer specR.Close()
	readyR, readyW, err := os.Pipe()
	if err != nil {
		specW.Close()
		return nil, err
	}
	defer readyW.Close()
	cmd := exec.Command("/proc/self/exe", Arg, label)
	cmd.Args[0] = "minicluster"
	cmd.ExtraFiles = []*os.File{specR, readyW}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid:     true,
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
	}
	if err := cmd.Start(); err != nil {
		specW.Close()
		readyR.Close()
		return nil, err
	}
	return &Init{Process: cmd.Process, spec: specW, ready: readyR}, nil
}

// Boot builds the host and waits until the host is complete. Its error is the host's message.
// Boot may be called once.
func (i *Init) Boot(s Spec) error {
	defer i.ready.Close()
	err := json.NewEncoder(i.spec).Encode(s)
	i.spec.Close()
	if err != nil {
		return err
	}
	said, err := io.ReadAll(i.ready)
	if err != nil {
		return err
	}
	switch string(said) {
	case "ok":
		return nil
	case "":
		return errors.New("the host's first process died while it was starting")
	}
	return errors.New(string(said))
}
