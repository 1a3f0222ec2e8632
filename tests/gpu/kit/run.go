// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// task is a program that a step runs.
type task struct {
	name    string // of the logs
	path    string
	args    []string
	env     []string
	stdin   string
	limit   time.Duration
	devices int  // as many are needed; 0 is 1
	apart   bool // each device is a GPU of its own
	shared  bool // all devices share a GPU
	quiet   bool // no row is added
}

// programResult is how a program ended.
type programResult struct {
	stdout, stderr string
	exit           int
	seconds        float64
	err            error // why the program did not end by itself
	over           bool  // the step's time was over, not the program's own limit
}

// wasCutShort tells whether a step's time was over before the program had run for several times its normal time: then
// there is no verdict on the program. A program that has run for so long hangs.
func (e *programResult) wasCutShort(normal float64) bool {
	const atLeast, times = 30, 5
	return e.over && e.seconds < max(atLeast, times*normal)
}

// timeOver is why there is no result of a program that was cut short.
const timeOver = "the time of this step is over"

// describeFailure describes a program's failure, in a few lines.
func (e *programResult) describeFailure() string {
	text := strings.TrimSpace(e.stderr)
	if lines := strings.Split(text, "\n"); len(lines) > 6 {
		text = strings.Join(lines[len(lines)-6:], "\n")
	}
	if e.err != nil {
		return e.err.Error() + "\n" + text
	}
	return fmt.Sprintf("exit status %d\n%s", e.exit, text)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// filePath returns the path of a file of the kit.
func (k *kit) filePath(parts ...string) string {
	return filepath.Join(append([]string{k.home}, parts...)...)
}

// childEnvironment returns the environment of a child: the driver's folder and PyTorch's libraries are found before all others.
func (k *kit) childEnvironment(more []string) []string {
	env := os.Environ()
	folders := slices.DeleteFunc(append([]string{k.driver}, k.libs...), func(f string) bool { return f == "" })
	if len(folders) > 0 {
		// The environment is the child's to be; this is a main, which may read the environment.
		if old, is := os.LookupEnv("LD_LIBRARY_PATH"); is && old != "" {
			folders = append(folders, old)
		}
		env = append(env, "LD_LIBRARY_PATH="+strings.Join(folders, ":"))
	}
	return append(env, more...)
}

// runChild runs a command in a process group of its own, and ends the whole group. The output is in the logs, too.
func (k *kit) runChild(ctx context.Context, p task, command ...string) *programResult {
	whole := ctx
	ctx, cancel := context.WithTimeout(ctx, p.limit)
	defer cancel()
	c := exec.CommandContext(ctx, command[0], command[1:]...)
	c.Env, c.Stdin = k.childEnvironment(p.env), strings.NewReader(p.stdin)
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = 5 * time.Second
	since := time.Now()
	err := c.Run()
	e := &programResult{seconds: time.Since(since).Seconds()}
	if c.Process != nil {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // processes that the child has left; mostly there are none
	}
	e.stdout, e.stderr = stdout.String(), stderr.String()
	var status *exec.ExitError
	switch {
	case whole.Err() != nil:
		e.over, e.err = true, fmt.Errorf("it did not end in %.0f s, and the time of the step is over", e.seconds)
	case ctx.Err() != nil:
		e.err = fmt.Errorf("it did not end within its time, %s", p.limit)
	case err != nil && !errors.As(err, &status):
		e.err = err
	default:
		e.exit = c.ProcessState.ExitCode()
	}
	k.writeLog(p.name, fmt.Sprintf("%q\nexit %d, %v, %.2f s\n--- stdout\n%s--- stderr\n%s", command, e.exit, e.err, e.seconds, e.stdout, e.stderr))
	return e
}

// writeLog writes a log, as far as that is possible.
func (k *kit) writeLog(name, text string) {
	name = strings.NewReplacer("/", "-", " ", "-").Replace(k.step + "-" + name)
	_ = os.WriteFile(filepath.Join(k.out, "logs", name+".log"), []byte(text), 0o666) // the report does not depend on logs
}

// runNatively runs a program over the driver, or, rehearsing, over software GPUs.
func (k *kit) runNatively(ctx context.Context, p task) *programResult {
	p.name += ".native"
	command := append([]string{p.path}, p.args...)
	if _, chosen := os.LookupEnv(visibleDevices); !k.soft && !chosen {
		p.env = append([]string{visibleDevices + "=" + listDevices(p.devices)}, p.env...)
	}
	if k.soft {
		command = append([]string{k.filePath("bin", "proxyd"), "run", "--soft", fmt.Sprint(max(p.devices, 1)), "--"}, command...)
	}
	return k.runChild(ctx, p, command...)
}

// visibleDevices is the variable that has a program see some of the GPUs: natively as many as by proxyd.
const visibleDevices = "CUDA_VISIBLE_DEVICES"

// listDevices lists the first devices, at least one, for visibleDevices.
func listDevices(n int) string {
	list := make([]string, max(n, 1))
	for i := range list {
		list[i] = fmt.Sprint(i)
	}
	return strings.Join(list, ",")
}

// runReference runs a program over as many software GPUs as are needed.
func (k *kit) runReference(ctx context.Context, p task) *programResult {
	p.name += ".soft"
	command := []string{k.filePath("bin", "proxyd"), "run", "--soft", fmt.Sprint(max(p.devices, 1)), "--", p.path}
	return k.runChild(ctx, p, append(command, p.args...)...)
}

// deviceFlags say which devices a device server has: those of the machine, which share if there are too few.
func (k *kit) deviceFlags(p *task) []string {
	devices := max(p.devices, 1)
	switch {
	case k.soft && p.apart:
		return []string{"--soft", fmt.Sprint(devices)}
	case k.soft:
		return []string{"--soft", fmt.Sprint(devices), "--on", "1"}
	}
	gpus := max(k.gpus, 1)
	if p.shared {
		gpus = 1
	}
	order := make([]string, devices)
	for i := range order {
		order[i] = fmt.Sprint(i % gpus)
	}
	return []string{"--order", strings.Join(order, ",")}
}

// runProxied runs a program over a device server, and notes the calls that the program asked for and did not get.
func (k *kit) runProxied(ctx context.Context, p task) *programResult {
	k.status++
	status := filepath.Join(k.out, "logs", fmt.Sprintf("status-%d.json", k.status))
	command := []string{k.filePath("bin", "proxyd"), "run", "--status", status}
	if !k.soft {
		command = append(command, "--cuda")
	}
	command = append(append(command, k.deviceFlags(&p)...), "--", p.path)
	name := p.name
	p.name += ".ours"
	e := k.runChild(ctx, p, append(command, p.args...)...)
	k.noteMissed(name, status)
	return e
}

// noteMissed reads the names of calls that are not covered from a device server's status.
func (k *kit) noteMissed(program, status string) {
	text, err := os.ReadFile(status)
	if err != nil {
		return // the server has not come so far
	}
	var st struct {
		Missed []string `json:"missed"`
	}
	if json.Unmarshal(text, &st) != nil {
		return
	}
	for _, call := range st.Missed {
		if !slices.Contains(k.missed[call], program) {
			k.missed[call] = append(k.missed[call], program)
		}
	}
}

func listMissed(_ context.Context, k *kit) {
	if k.status == 0 {
		k.addRow(row{Name: "calls that are not covered", Outcome: cannot, Why: "no program was run by proxyd"})
		return
	}
	if len(k.missed) == 0 {
		k.addRow(row{Name: "calls that are not covered", Outcome: right, Why: "no program of this run asked for one"})
		return
	}
	values := map[string]string{}
	for call, by := range k.missed {
		values[call] = strings.Join(by, ", ")
	}
	// The promise is that a call that is not covered is refused by name.
	k.addRow(row{Name: "calls that are not covered", Outcome: right, Values: values})
}
