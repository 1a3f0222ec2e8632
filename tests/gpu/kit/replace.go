// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server"
)

// replacements is how often a device server is replaced under a program.
const replacements = 3

// replaceServers saves, kills and restores device servers under programs; the output must be that of an undisturbed
// run.
func replaceServers(ctx context.Context, k *kit) {
	if !k.needGPU("device servers replaced") {
		return
	}
	n := fmt.Sprint(k.steps)
	tasks := []task{k.workloadTask("mlp", "--steps", n), k.workloadTask("gpt", "--steps", n), k.workloadTask("streams", "--steps", n)}
	wholes := tasks[:2]
	for i := range trainings {
		t := &trainings[i]
		if !k.isChosen(t.name) && k.match != "" {
			continue
		}
		if why := k.whyCannotTrain(ctx, t); why != "" {
			k.addRow(row{Name: t.name + ", its device server replaced", Outcome: cannot, Why: why})
			continue
		}
		tasks = append(tasks, k.trainingTask(t, "--steps", n))
		if t.gpus <= 1 {
			wholes = append(wholes, tasks[len(tasks)-1])
		}
	}
	if path, why := k.compileForAll(ctx); why != "" {
		k.addRow(row{Name: "a program of nvcc, its device server replaced", Outcome: cannot, Why: why})
	} else {
		tasks = append(tasks, task{name: "a program of nvcc", path: path, args: []string{n}, limit: time.Minute})
	}
	for _, t := range tasks {
		k.moveTask(ctx, t, false)
	}
	criu, err := exec.LookPath("criu")
	switch {
	case err != nil:
		k.addRow(row{Name: "whole processes by CRIU", Outcome: cannot, Why: "there is no criu"})
	case os.Geteuid() != 0:
		k.addRow(row{Name: "whole processes by CRIU", Outcome: cannot, Why: criu + " needs root"})
	default:
		for _, t := range wholes {
			k.moveTask(ctx, t, true)
		}
	}
}

// moveTask runs a program undisturbed, and while its device server is replaced, with criu the program as well.
func (k *kit) moveTask(ctx context.Context, t task, criu bool) {
	name := t.name + ", its device server replaced"
	if criu {
		name = t.name + ", killed and restored by CRIU"
	}
	if !k.isChosen(name) {
		return
	}
	t.name += " undisturbed"
	want := k.runProxied(ctx, t)
	if want.wasCutShort(0) {
		k.addRow(row{Name: name, Outcome: cannot, Why: timeOver})
		return
	}
	if want.err != nil || want.exit != 0 {
		k.addRow(row{Name: name, Outcome: wrong, Why: "undisturbed, by proxyd, it fails: " + want.describeFailure()})
		return
	}
	since := time.Now()
	limited, cancel := context.WithTimeout(ctx, t.limit)
	defer cancel()
	m, err := k.startMoved(limited, t)
	var took []string
	if err == nil {
		took, err = m.moveToEnd(limited, criu)
		err = errors.Join(err, m.cleanUp())
	}
	got, log := m.readOutput(), m.readLog()
	k.writeLog(name, fmt.Sprintf("%v\n%s\n--- device servers\n%s", err, got, log))
	w := row{Name: name, Outcome: right, Values: map[string]string{"stopped for": strings.Join(took, ", ")}}
	cut := &programResult{over: ctx.Err() != nil, seconds: time.Since(since).Seconds()}
	switch {
	case err != nil && cut.wasCutShort(want.seconds):
		w.Outcome, w.Why = cannot, timeOver
	case err != nil:
		w.Outcome, w.Why = wrong, err.Error()+"\n"+lastLine(log)
	case len(took) == 0:
		w.Outcome, w.Why = wrong, "it had ended before its device server could be replaced: more --steps"
	case got != want.stdout:
		w.Outcome, w.Why = wrong, "it prints something else: "+firstDifference(got, want.stdout)
	}
	k.addRow(w)
}

// moveToEnd replaces the device server each time the program has printed a line more, and waits for the program's end.
// moveToEnd returns how long the program was stopped each time.
func (m *movedProgram) moveToEnd(ctx context.Context, criu bool) ([]string, error) {
	var took []string
	lines := 0
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case err := <-m.ended:
			m.process = nil
			return took, err
		case <-ctx.Done():
			return took, fmt.Errorf("it did not end in time, after %d replacements", len(took))
		case <-look.C: // look at the program's output
		}
		now := strings.Count(m.readOutput(), "\n")
		if len(took) == replacements || now <= lines {
			continue
		}
		since := time.Now()
		gone, err := m.replaceOnce(ctx, criu)
		if err != nil {
			return took, fmt.Errorf("replacement %d: %w", len(took)+1, err)
		}
		if !gone {
			took = append(took, time.Since(since).Round(time.Millisecond).String())
		}
		lines = strings.Count(m.readOutput(), "\n")
	}
}

// connectControl makes a connection for orders.
func (m *movedProgram) connectControl() (*server.Controller, error) {
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: m.socket + "-control", Net: "unixpacket"})
	if err != nil {
		return nil, err
	}
	return server.NewController(conn), nil
}

// replaceOnce saves, kills and restores. If the program has ended before, replaceOnce returns gone.
func (m *movedProgram) replaceOnce(ctx context.Context, criu bool) (gone bool, err error) {
	state := server.Folder(filepath.Join(m.folder, "state"))
	c, err := m.connectControl()
	if err != nil {
		return false, err
	}
	defer c.Close()
	r, err := c.Save(ctx, state, server.SaveOptions{})
	if err != nil {
		return false, fmt.Errorf("save: %w", err)
	}
	if len(r.Processes) == 0 {
		return true, c.Resume(ctx)
	}
	mappings := map[uint64][]*os.File{}
	defer func() {
		for _, all := range mappings {
			for _, f := range all {
				f.Close()
			}
		}
	}()
	for _, p := range r.Processes {
		if criu {
			continue // the process brings its memory back
		}
		if mappings[p.ID], err = c.FetchHostMappings(ctx, p.ID, len(p.HostMappings)); err != nil && !hasEnded(p.PID) {
			return false, fmt.Errorf("what belongs to process %d: %w", p.PID, err)
		}
	}
	if criu {
		err = m.dumpProgram()
	}
	if err = errors.Join(err, m.killServer()); err != nil {
		return false, err
	}
	if criu {
		if err := m.restoreProgram(); err != nil {
			return false, err
		}
	}
	if err := m.startServer(ctx, "--await"); err != nil {
		return false, err
	}
	return false, m.restoreState(ctx, state, r, mappings)
}

// restoreState has a new device server build the saved state, and the program go on.
func (m *movedProgram) restoreState(ctx context.Context, state server.Folder, r *server.Report, mappings map[uint64][]*os.File) error {
	c, err := m.connectControl()
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.Restore(ctx, state); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	for _, p := range r.Processes {
		if err := c.Adopt(ctx, p.ID, p.PID, mappings[p.ID]); err != nil && !hasEnded(p.PID) {
			return fmt.Errorf("adopt process %d: %w", p.PID, err)
		}
	}
	return c.Resume(ctx)
}

// hasEnded tells whether a process is gone.
func hasEnded(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(text), ") Z ")
}
