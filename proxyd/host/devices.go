// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
)

// inventory is the part of the output of "proxyd gpus" that is used here.
type inventory struct {
	Driver  string
	Devices []struct {
		Name   string
		Memory uint64
		Faults []string
	}
	NCCL string
}

func checkDevices(ctx context.Context, n *node) Finding {
	f := Finding{Name: "devices", Needs: "devices.kind none, soft, or cuda with NVIDIA's driver, proxyd-cuda and NCCL on the node"}
	d := &n.cfg.Devices
	if d.Kind == "" || d.Kind == "none" {
		return f.withOK("none: jobs have their GPUs without device servers, and one that uses them is not captured")
	}
	reached := "by its address in Slurm"
	if d.Address != "" {
		if !isNodeAddress(d.Address) {
			return f.withProblem(Fail, d.Address+" is no address of this node", "give devices.address one of this node, or none for the one that Slurm knows")
		}
		reached = "at " + d.Address
	}
	if d.Kind == "soft" {
		found := fmt.Sprintf("software GPUs of %s, reached %s", bytesText(d.Memory), reached)
		if why := n.known.Interpreted; why != nil && d.Kernels == "compiled" {
			found += "; kernels are interpreted, many times slower: " + why.Error()
		}
		return f.withOK(found)
	}
	if n.known.Program == "" {
		return f.withOK("not looked at")
	}
	text, err := runProgram(ctx, n.known.Program, "gpus")
	if err != nil {
		return f.withProblem(Fail, err.Error(), realDevicesRemedy(err.Error()))
	}
	var found inventory
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		return f.withProblem(Fail, fmt.Sprintf("proxyd gpus: %v", err), "install proxyd and proxyd-cuda of one release")
	}
	return found.judgeDevices(f, reached)
}

// realDevicesRemedy returns the remedy if the node's real devices cannot be asked. said is the error.
func realDevicesRemedy(said string) string {
	if strings.Contains(said, "proxyd-cuda") {
		return "make install-cuda: only proxyd-cuda, which is linked with the node's C library, can open a driver"
	}
	return "install NVIDIA's driver so that nvidia-smi answers, or set devices.kind to none"
}

// judgeDevices completes the finding, by the GPUs, their faults and NCCL.
func (v *inventory) judgeDevices(f Finding, reached string) Finding {
	kinds := map[string]int{}
	var order, faults []string
	for i, d := range v.Devices {
		name := fmt.Sprintf("%s of %s", d.Name, bytesText(d.Memory))
		if kinds[name]++; kinds[name] == 1 {
			order = append(order, name)
		}
		for _, fault := range d.Faults {
			faults = append(faults, fmt.Sprintf("GPU %d: %s", i, fault))
		}
	}
	for i, name := range order {
		order[i] = fmt.Sprintf("%d %s", kinds[name], name)
	}
	found := fmt.Sprintf("%s, driver %s, NCCL %s, reached %s", strings.Join(order, ", "), v.Driver, v.NCCL, reached)
	switch {
	case len(v.Devices) == 0:
		return f.withProblem(Fail, "driver "+v.Driver+" has no GPU", "see dmesg, or set devices.kind to none")
	case len(faults) > 0:
		return f.withProblem(Warn, strings.Join(faults, "; "), "take the GPU out of the node's gres.conf until it is repaired")
	case v.NCCL == "":
		return f.withProblem(Warn, strings.Replace(found, "NCCL ", "no NCCL", 1), "install libnccl2 on the node: without it collectives go through the host's memory")
	}
	return f.withOK(found)
}

// isNodeAddress tells whether an address is this node's.
func isNodeAddress(address string) bool {
	want := net.ParseIP(address)
	all, err := net.InterfaceAddrs()
	if err != nil {
		return true // the addresses cannot be read
	}
	for _, a := range all {
		if n, is := a.(*net.IPNet); is && n.IP.Equal(want) {
			return true
		}
	}
	return false
}
