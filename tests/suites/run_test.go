//go:build suites

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package suites

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// runner builds and runs programs.
type runner struct {
	cuda, proxyd string
}

// libraryFolder is where a tree of Debian packages has their libraries.
const libraryFolder = "usr/lib/x86_64-linux-gnu"

// fetchLibraries returns the tree of the Debian packages that a program needs, or "".
func fetchLibraries(p program) (string, error) {
	if len(p.libraries) == 0 {
		return "", nil
	}
	return fetch(append([]string{"libraries"}, p.libraries...)...)
}

// Bounds of a program's build and run.
const (
	buildLimit = 10 * time.Minute
	endGrace   = 20 * time.Second // between the request to end and a kill
	dataLimit  = 8 << 20          // KiB of private memory of each process
	maxOutput  = 4 << 20          // bytes of a program's output that are read
	calm       = 20 * time.Second // how long a program that hangs has been idle
	busiest    = 10               // how many times its processor time a run may take
)

// tryProgram builds and runs a program.
func (r *runner) tryProgram(ctx context.Context, s *suite, p program) outcome {
	folder := filepath.Join(s.folder, p.folder)
	if s.graphics != nil {
		text, err := os.ReadFile(filepath.Join(folder, p.file))
		if err != nil {
			return outcome{verdict: notBuilt, by: byExitCode, why: err.Error()}
		}
		if s.graphics.MatchString(p.folder) || s.graphics.Match(text) {
			return outcome{verdict: graphics, by: "its " + p.file}
		}
	}
	libraries, err := fetchLibraries(p)
	if err != nil {
		return outcome{verdict: notBuilt, by: byExitCode, why: err.Error()}
	}
	if err := r.buildProgram(ctx, s, p, folder, libraries); err != nil {
		return outcome{verdict: notBuilt, by: byExitCode, why: err.Error()}
	}
	e, err := r.runProgram(ctx, p, folder, libraries)
	if err != nil {
		return outcome{verdict: wrong, by: byExitCode, why: err.Error()}
	}
	var expected *string
	if p.expect != "" {
		text, err := os.ReadFile(filepath.Join(folder, p.expect))
		if err != nil {
			return outcome{verdict: notBuilt, by: byOutput, why: err.Error()}
		}
		expected = new(string)
		*expected = string(text)
	}
	o := p.judgeRun(*e, expected)
	_ = os.WriteFile(filepath.Join(s.folder, ".built", p.name+".output"), []byte(e.output), 0o666) // for people
	return o
}

// buildProgram builds a program in its folder, unless the same command has built the program there.
func (r *runner) buildProgram(ctx context.Context, s *suite, p program, folder, libraries string) error {
	command := p.fillCommand(p.build, r.cuda)
	stamps := filepath.Join(s.folder, ".built")
	stamp := filepath.Join(stamps, p.built)
	s.building.Lock()
	defer s.building.Unlock()
	want := r.cuda + "\n" + command + "\n"
	if libraries != "" {
		want += libraries + "\n"
	}
	if text, err := os.ReadFile(stamp); err == nil && string(text) == want {
		return nil
	}
	if err := os.MkdirAll(stamps, 0o755); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, buildLimit)
	defer cancel()
	c := exec.CommandContext(ctx, "sh", "-c", command)
	c.Dir = folder
	c.Env = append(os.Environ(), "PATH="+filepath.Join(r.cuda, "bin")+":"+os.Getenv("PATH"), "MAKEFLAGS=", "MAKELEVEL=")
	if libraries != "" {
		c.Env = append(c.Env, "CPATH="+filepath.Join(libraries, "usr/include"), "LIBRARY_PATH="+filepath.Join(libraries, libraryFolder))
	}
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = time.Second
	out, err := c.CombinedOutput()
	if err := os.WriteFile(stamp+".log", out, 0o666); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return fmt.Errorf("the build takes longer than %v", buildLimit)
	}
	if file := strings.Fields(p.fillCommand(p.run, r.cuda))[0]; err == nil && strings.HasPrefix(file, "./") {
		_, err = os.Stat(filepath.Join(folder, file))
	}
	if err != nil {
		return errors.New(buildFailure(string(out), err))
	}
	return os.WriteFile(stamp, []byte(want), 0o666)
}

// buildFailure returns the first line of a build's log that tells the error.
func buildFailure(log string, err error) string {
	for _, word := range []string{"rror:", "WARNING - ", "not found", "rror"} {
		for l := range strings.Lines(log) {
			if strings.Contains(l, word) {
				return strings.TrimSpace(l)
			}
		}
	}
	return err.Error()
}

// runProgram runs a program on software GPUs.
func (r *runner) runProgram(ctx context.Context, p program, folder, libraries string) (*ending, error) {
	scratch, err := os.MkdirTemp("", "suites")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(scratch)
	status := filepath.Join(scratch, "status")
	output, err := os.Create(filepath.Join(scratch, "output"))
	if err != nil {
		return nil, err
	}
	defer output.Close()
	args := append([]string{"-c", fmt.Sprintf(`ulimit -d %d; ulimit -c 0; exec "$@"`, dataLimit), "sh", r.proxyd, "run", "--soft", strconv.Itoa(p.devices),
		"--memory", p.memory, "--status", status, "--"}, strings.Fields(p.fillCommand(p.run, r.cuda))...)
	c := exec.Command("sh", args...)
	c.Dir, c.Stdout, c.Stderr = folder, output, output
	path := filepath.Join(r.cuda, "lib64")
	if libraries != "" {
		path += ":" + filepath.Join(libraries, libraryFolder)
	}
	c.Env = append(os.Environ(), "LD_LIBRARY_PATH="+path, "CUDA_PATH="+r.cuda, "PATH="+folder+":"+os.Getenv("PATH"))
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	start := time.Now()
	if err := c.Start(); err != nil {
		return nil, err
	}
	e := &ending{}
	done := make(chan error, 1)
	go func() { done <- c.Wait() }()
	watchProgram(ctx, c.Process.Pid, p.limit, done, e)
	e.took = time.Since(start)
	e.exit = c.ProcessState.ExitCode()
	text, err := os.ReadFile(output.Name())
	if err != nil {
		return nil, err
	}
	e.output = string(text[:min(len(text), maxOutput)])
	return e, e.readStatus(status)
}

// watchProgram waits for the end of a program, and ends the program when its processor time is used up, or when no
// process of the program has run for a while. Time in which other programs have the processors does not count.
func watchProgram(ctx context.Context, pid int, limit time.Duration, done <-chan error, e *ending) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	start := time.Now()
	moved, before := start, time.Duration(0)
	for !e.late {
		select {
		case <-done:
			return
		case <-ctx.Done():
			e.late = true
		case now := <-tick.C:
			used := processorTime(pid)
			if used-before >= now.Sub(moved)/50 {
				moved, before = now, used
			}
			e.idle = now.Sub(moved) > calm
			e.late = e.idle || used > limit || now.Sub(start) > busiest*limit
		}
	}
	_ = syscall.Kill(pid, syscall.SIGTERM)
	if waitFor(done, endGrace) {
		return
	}
	// A program may ignore the signal. The device server must not.
	for _, child := range descendantsOf(pid) {
		if !isProxyd(child) {
			_ = syscall.Kill(child, syscall.SIGKILL)
		}
	}
	if waitFor(done, endGrace) {
		return
	}
	e.stuck = true
	for _, child := range append(descendantsOf(pid), pid) {
		_ = syscall.Kill(child, syscall.SIGKILL)
	}
	<-done
}

// waitFor tells whether a program has ended within a time.
func waitFor(done <-chan error, most time.Duration) bool {
	select {
	case <-done:
		return true
	case <-time.After(most):
		return false
	}
}

// isProxyd tells whether a process is one of proxyd's own.
func isProxyd(pid int) bool {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return err == nil && strings.TrimSpace(string(name)) == "proxyd"
}

// descendantsOf are the processes below a process.
func descendantsOf(pid int) []int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, task := range tasks {
		if more, err := os.ReadFile(task); err == nil && !strings.Contains(task, fmt.Sprintf("/task/%d/", pid)) {
			text = append(append(text, ' '), more...)
		}
	}
	if err != nil {
		return nil
	}
	var all []int
	for _, word := range strings.Fields(string(text)) {
		if child, err := strconv.Atoi(word); err == nil {
			all = append(append(all, child), descendantsOf(child)...)
		}
	}
	return all
}

// processorTime is how long the processes below a process have run.
func processorTime(pid int) time.Duration {
	var ticks int64
	for _, child := range descendantsOf(pid) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child))
		if err != nil {
			continue
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		const user, system = 11, 12 // behind the name, of proc(5)
		for _, field := range []int{user, system} {
			if n, err := strconv.ParseInt(fields[field], 10, 64); err == nil {
				ticks += n
			}
		}
	}
	const ticksPerSecond = 100
	return time.Duration(ticks) * time.Second / ticksPerSecond
}

// readStatus reads the status of devices that the device server has written.
func (e *ending) readStatus(file string) error {
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil // the server has died, or was killed
	}
	if err != nil {
		return err
	}
	var status struct {
		Sharing []struct{ Instructions uint64 }
		Missed  []string
		Faults  []string
	}
	if err := json.Unmarshal(text, &status); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for _, device := range status.Sharing {
		e.executed += device.Instructions
	}
	e.missed, e.faults = status.Missed, status.Faults
	return nil
}
