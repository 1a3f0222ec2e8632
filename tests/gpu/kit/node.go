// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// findGPUs counts the GPUs, or notes why there is no GPU.
func (k *kit) findGPUs() {
	found, _ := filepath.Glob("/dev/nvidia[0-9]*") // the pattern is right
	k.gpus = len(found)
	if k.nested {
		k.gpus = 1
		return
	}
	if k.driver != "" {
		if _, err := os.Stat(filepath.Join(k.driver, "libcuda.so.1")); err != nil {
			k.why = "--driver: " + err.Error()
		}
		k.gpus = max(k.gpus, 1)
		return
	}
	if k.gpus == 0 {
		k.why = "no GPU: there is no /dev/nvidia0"
	}
}

// inventory has the fields of the output of `proxyd gpus` that the kit uses.
type inventory struct {
	Driver  string `json:"driver"`
	NCCL    string `json:"nccl"`
	Devices []struct {
		Name   string   `json:"name"`
		BusID  string   `json:"busId"`
		Memory uint64   `json:"memory"`
		Faults []string `json:"faults"`
	} `json:"devices"`
}

// describeNode is the first step.
func describeNode(ctx context.Context, k *kit) {
	var name unix.Utsname
	_ = unix.Uname(&name) // cannot fail
	k.addRow(row{Name: "machine", Outcome: right, Values: map[string]string{
		"kernel": unix.ByteSliceToString(name.Release[:]), "processors": fmt.Sprint(runtime.NumCPU()), "user": fmt.Sprint(os.Geteuid()),
		"GPU device files": fmt.Sprint(k.gpus), "driver's module": firstLine("/proc/driver/nvidia/version"),
	}})
	k.describeCuda(ctx)
	k.describeGPUs(ctx)
	k.describePyTorch(ctx)
	if path, err := exec.LookPath("criu"); err != nil {
		k.addRow(row{Name: "criu", Outcome: cannot, Why: "there is no criu"})
	} else {
		e := k.runChild(ctx, task{name: "criu", limit: 10 * time.Second}, path, "--version")
		k.addRow(row{Name: "criu", Outcome: right, Values: map[string]string{"version": strings.TrimSpace(e.stdout)}})
	}
}

func firstLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return "none"
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}

// describeCuda says whether the program that is linked with the C library starts here.
func (k *kit) describeCuda(ctx context.Context) {
	e := k.runChild(ctx, task{name: "proxyd-cuda", limit: 20 * time.Second}, k.filePath("bin", "proxyd-cuda"), "--version")
	if e.err != nil || e.exit != 0 {
		k.addRow(row{Name: "proxyd-cuda", Outcome: wrong, Why: "it does not start: " + e.describeFailure() + "\n" + firstLine(k.filePath("needs.txt"))})
		return
	}
	k.addRow(row{Name: "proxyd-cuda", Outcome: right, Values: map[string]string{"needs": firstLine(k.filePath("needs.txt"))}})
}

func (k *kit) describeGPUs(ctx context.Context) {
	if !k.needDriver("GPUs") {
		return
	}
	e := k.runChild(ctx, task{name: "gpus", limit: 20 * time.Second}, k.filePath("bin", "proxyd-cuda"), "gpus")
	var found inventory
	if e.err != nil || e.exit != 0 || json.Unmarshal([]byte(e.stdout), &found) != nil {
		// The driver may work where the management library does not: steps that need a GPU are tried all the same.
		k.addRow(row{Name: "GPUs", Outcome: differs, Why: "the management library says nothing: " + e.describeFailure()})
		return
	}
	if len(found.Devices) > 0 {
		k.gpus = len(found.Devices)
	}
	for i, d := range found.Devices {
		speed, link := linkSpeed(d.BusID)
		k.pcie = max(k.pcie, speed)
		w := row{Name: fmt.Sprintf("GPU %d", i), Outcome: right, Values: map[string]string{
			"name": d.Name, "memory": fmt.Sprintf("%d MiB", d.Memory>>20), "driver": found.Driver, "NCCL": found.NCCL, "link": link,
		}}
		if len(d.Faults) > 0 {
			w.Outcome, w.Why = differs, strings.Join(d.Faults, "\n")
		}
		k.addRow(w)
	}
}

// linkSpeed returns the speed of a device's PCIe link in GB/s for each direction, without the overhead of protocols,
// and in words.
func linkSpeed(bus string) (float64, string) {
	// The management library has eight digits of a domain where the kernel has four.
	bus = strings.ToLower(bus)
	if len(bus) > 12 {
		bus = bus[len(bus)-12:]
	}
	folder := "/sys/bus/pci/devices/" + bus
	speed, width := firstLine(folder+"/max_link_speed"), firstLine(folder+"/max_link_width")
	number, _, _ := strings.Cut(speed, " ")
	transfers, err := strconv.ParseFloat(number, 64)
	lanes, errWidth := strconv.ParseFloat(width, 64)
	if err != nil || errWidth != nil {
		return 0, "not known"
	}
	bits := 128.0 / 130 // of each transfer's that carry something
	if transfers <= 5 {
		bits = 0.8
	}
	return transfers * lanes * bits / 8, fmt.Sprintf("%s, %s lanes", speed, width)
}

// torchFacts is the Python program that prints facts about PyTorch.
const torchFacts = `
import json, os, sys
facts = {"python": sys.version.split()[0]}
import torch
facts.update(torch=torch.__version__, cuda=str(torch.version.cuda), available=torch.cuda.is_available())
try:
    import triton
    facts["triton"] = triton.__version__
except Exception as error:
    facts["triton"] = "none"
libs = []
for folder in sys.path:
    nccl = os.path.join(folder, "nvidia", "nccl", "lib")
    if os.path.isdir(nccl):
        libs.append(nccl)
facts["libs"] = libs
print("facts", json.dumps(facts))
`

func (k *kit) describePyTorch(ctx context.Context) {
	k.torch = k.findPyTorch(ctx)
	if k.torch != "" {
		k.addRow(row{Name: "PyTorch", Outcome: cannot, Why: k.torch})
	}
}

// findPyTorch says why PyTorch cannot be used, or "".
func (k *kit) findPyTorch(ctx context.Context) string {
	path, err := exec.LookPath(k.python)
	if err != nil {
		return "there is no " + k.python
	}
	k.python = path
	command := []string{path, "-c", torchFacts}
	if k.soft {
		command = append([]string{k.filePath("bin", "proxyd"), "run", "--soft", "1", "--"}, command...)
	}
	e := k.runChild(ctx, task{name: "torch", limit: 90 * time.Second}, command...)
	_, text, is := strings.Cut(e.stdout, "facts ")
	var facts struct {
		Python, Torch, Cuda, Triton string
		Available                   bool
		Libs                        []string
	}
	if !is || json.Unmarshal([]byte(text), &facts) != nil {
		return path + " has no PyTorch: " + lastLine(e.describeFailure())
	}
	if !facts.Available {
		return fmt.Sprintf("PyTorch %s of %s finds no GPU", facts.Torch, path)
	}
	k.libs, k.triton = facts.Libs, facts.Triton
	k.addRow(row{Name: "PyTorch", Outcome: right, Values: map[string]string{
		"python": facts.Python, "torch": facts.Torch, "CUDA": facts.Cuda, "triton": facts.Triton, "NCCL's folder": strings.Join(facts.Libs, ":"),
	}})
	return ""
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndex(text, "\n")+1:]
}
