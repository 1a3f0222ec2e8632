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
		k.gpus = nestedGPUs
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
	k.describeFrameworks(ctx)
	k.describeCompiler(ctx)
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

// frameworkFacts is the Python program that prints facts about PyTorch, transformers and JAX, a line for each.
const frameworkFacts = `
import json, os, sys
def say(name, find):
    facts = {"python": sys.version.split()[0], "why": ""}
    try:
        facts.update(find())
    except Exception as error:
        facts["why"] = repr(error)
    print("facts", name, json.dumps(facts), flush=True)
def find_torch():
    import torch
    facts = {"version": torch.__version__, "cuda": str(torch.version.cuda)}
    if not torch.cuda.is_available():
        facts["why"] = "PyTorch " + facts["version"] + " finds no GPU"
    try:
        import triton
        facts["triton"] = triton.__version__
    except Exception:
        facts["triton"] = "none"
    libs = [os.path.join(folder, "nvidia", "nccl", "lib") for folder in sys.path]
    facts["libs"] = [folder for folder in libs if os.path.isdir(folder)]
    return facts
def find_transformers():
    import transformers
    from transformers import LlamaForCausalLM
    return {"version": transformers.__version__}
def find_jax():
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    import jax
    return {"version": jax.__version__, "why": "" if jax.default_backend() == "gpu" else "JAX " + jax.__version__ + " finds no GPU"}
say("PyTorch", find_torch)
say("transformers", find_transformers)
say("JAX", find_jax)
`

// pythonFacts are the facts about a framework.
type pythonFacts struct {
	Python, Version, Cuda, Triton, Why string
	Libs                               []string
}

// describeFrameworks adds a row for each framework.
func (k *kit) describeFrameworks(ctx context.Context) {
	found := k.findFrameworks(ctx)
	for _, f := range []framework{torch, transformers, jax} {
		if why := k.absent[f]; why != "" {
			k.addRow(row{Name: string(f), Outcome: cannot, Why: why})
			continue
		}
		values := map[string]string{"python": found[f].Python, "version": found[f].Version}
		if f == torch {
			values["CUDA"], values["triton"], values["NCCL's folder"] = found[f].Cuda, found[f].Triton, strings.Join(found[f].Libs, ":")
		}
		k.addRow(row{Name: string(f), Outcome: right, Values: values})
	}
}

// findFrameworks notes why frameworks cannot be used, and returns the facts that Python has told.
func (k *kit) findFrameworks(ctx context.Context) map[framework]*pythonFacts {
	k.absent = map[framework]string{torch: "", transformers: "", jax: ""}
	sayAll := func(why string) {
		for f := range k.absent {
			k.absent[f] = why
		}
	}
	path, err := exec.LookPath(k.python)
	if err != nil {
		sayAll("there is no " + k.python)
		return nil
	}
	k.python = path
	command := []string{path, "-c", frameworkFacts}
	if k.soft {
		command = append([]string{k.filePath("bin", "proxyd"), "run", "--soft", "1", "--"}, command...)
	}
	e := k.runChild(ctx, task{name: "frameworks", limit: 90 * time.Second}, command...)
	found := readFrameworks(e.stdout)
	for f := range k.absent {
		facts := found[f]
		switch {
		case facts == nil:
			k.absent[f] = fmt.Sprintf("%s does not say whether it has %s: %s", path, f, lastLine(e.describeFailure()))
		case facts.Why != "":
			k.absent[f] = path + ": " + facts.Why
		}
	}
	if facts := found[torch]; facts != nil && facts.Why == "" {
		k.libs, k.triton = facts.Libs, facts.Triton
	}
	if k.absent[torch] != "" && k.absent[transformers] == "" {
		k.absent[transformers] = "it needs PyTorch: " + k.absent[torch]
	}
	return found
}

// readFrameworks reads the output of frameworkFacts.
func readFrameworks(stdout string) map[framework]*pythonFacts {
	found := map[framework]*pythonFacts{}
	for line := range strings.Lines(stdout) {
		text, is := strings.CutPrefix(line, "facts ")
		name, text, _ := strings.Cut(text, " ")
		facts := &pythonFacts{}
		if is && json.Unmarshal([]byte(text), facts) == nil {
			found[framework(name)] = facts
		}
	}
	return found
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndex(text, "\n")+1:]
}
