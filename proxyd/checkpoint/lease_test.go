// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/gpus"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/life"
	"github.com/singularity-slurm/singularity-slurm/proxyd/nodesocket"
	"github.com/singularity-slurm/singularity-slurm/proxyd/procfs"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
)

// leaseConductor is a node on which user 1001 has job 7, with a single GPU and four devices.
func leaseConductor(t *testing.T, kind string) (*Conductor, *localCapsule) {
	t.Helper()
	c := (&Conductor{Config: Config{Node: "n1", Lib: t.TempDir(), Devices: DeviceConfig{Kind: kind}}, Deps: Deps{Log: slog.New(slog.DiscardHandler)}}).linkPartsToConductor()
	j := c.jobFor(7)
	j.run.BeginNext(&records.Record{Job: 7, UID: 1001, Nodes: []string{"n1"}, GPUs: []int{4}}, 0, []string{"n1"}, nil)
	lc := &localCapsule{j: j, note: capsuleNote{Job: 7, GPUs: []string{"3", "3", "3", "3"}, OwnGPUs: 1}}
	j.capsules = map[int]*localCapsule{0: lc}
	return c, lc
}

// TestLeaseRefused: a user lends GPUs to jobs of their own only, and cannot learn whether other users' jobs exist.
func TestLeaseRefused(t *testing.T) {
	for _, tt := range []struct {
		name, kind string
		join       nodesocket.Join
		want       string
	}{
		{"another user's job", kindSoft, nodesocket.Join{Job: 9, UID: 1002, Step: "batch", Options: map[string]string{"lease": "7"}}, errNoBorrower.Error()},
		{"no job", kindSoft, nodesocket.Join{Job: 9, UID: 1001, Step: "batch", Options: map[string]string{"lease": "8"}}, errNoBorrower.Error()},
		{"itself", kindSoft, nodesocket.Join{Job: 9, UID: 1001, Step: "batch", Options: map[string]string{"lease": "9"}}, errNoBorrower.Error()},
		{"no number", kindSoft, nodesocket.Join{Job: 9, UID: 1001, Step: "batch", Options: map[string]string{"lease": "7 8"}}, "not the number of a job"},
		{"a step", kindSoft, nodesocket.Join{Job: 9, UID: 1001, Step: "0", Options: map[string]string{"lease": "7"}}, "can run no steps"},
		{"real GPUs", kindCuda, nodesocket.Join{Job: 9, UID: 1001, Step: "batch", Options: map[string]string{"lease": "7"}}, "cannot be lent yet"},
		{"no devices", kindSoft, nodesocket.Join{Job: 9, UID: 1001, Step: "batch", Options: map[string]string{"lease": "7"}}, "has no GPUs here"},
	} {
		c, lc := leaseConductor(t, tt.kind)
		_, err := c.Join(t.Context(), tt.join)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		if len(lc.note.Leases) != 0 || c.leases.findBorrower(9) != nil {
			t.Errorf("%s: leases %v", tt.name, lc.note.Leases)
		}
	}
}

// TestTooManyLent: a job is lent no more GPUs than its devices, and the refusal leaves no lease.
func TestTooManyLent(t *testing.T) {
	c, lc := leaseConductor(t, kindSoft)
	lc.devices = &life.Server{}
	err := lc.j.addLease(t.Context(), 9, []int{0, 1, 2, 4})
	if err == nil || !strings.Contains(err.Error(), "it can use 4 GPUs (--singularity-gpus), and 4 more would be 1 too many") {
		t.Errorf("addLease of 4 GPUs to a job that can use 3 more: %v", err)
	}
	if len(lc.note.Leases) != 0 || c.leases.findBorrower(9) != nil || errors.Is(err, errNoBorrower) {
		t.Errorf("leases after a refused lease: %v, want none", lc.note.Leases)
	}
}

// leaseSlurm has leaseConductor's job 7 on n1, which has two CPUs and four GPUs, and lease 9, which waits if the file
// "waits" is there. Commands that change jobs or ask for idle resources are noted in the file "asked".
func leaseSlurm(t *testing.T, cpusTaken string) (s *slurm.Slurm, dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range map[string]string{
		"scontrol": "echo idle >>asked; echo NodeName=n1 CPUAlloc=" + cpusTaken + " CPUTot=2 Gres=gpu:4 GresUsed=gpu:1 RealMemory=1000 AllocMem=0 State=MIXED",
		"sbatch":   "echo sbatch >>asked; echo 9",
		"scancel":  "echo scancel $* >>asked",
		"squeue": `case "$*" in
*Account:*) echo "lab|main|basic|" ;;
*ReqNodes:*) [ ! -e waits ] || echo "n1|9|1001|PENDING|QOSMaxGRESPerUser|0|0|1||N/A|N/A|9|N/A|N/A|N/A||2026-07-01T12:00:00|N/A|" ;;
*) echo "7|1001|RUNNING|None|0|1|1|n1|2026-11-20T16:41:18|N/A|7|N/A|N/A|N/A|n1|2026-07-01T12:00:00|N/A|" ;;
esac`,
	} {
		noError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\ncd "+dir+"\n"+text+"\n"), 0o755))
	}
	noError(t, os.WriteFile(filepath.Join(dir, "asked"), nil, 0o600))
	return slurm.New(filepath.Join(dir, "scontrol")), dir
}

func readAsked(t *testing.T, dir string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "asked"))
	noError(t, err)
	return string(text)
}

// TestLackingForLeases: a node that has not enough idle for a lease is told of at once, and no lease is submitted.
func TestLackingForLeases(t *testing.T) {
	c, lc := leaseConductor(t, kindSoft)
	lc.devices = &life.Server{}
	var dir string
	c.Slurm, dir = leaseSlurm(t, "2")
	_, had, err := c.Lend(t.Context(), "7", 2, "")
	if !errors.Is(err, ErrNotLent) || !strings.Contains(err.Error(), "for a lease, n1 lacks idle CPUs (0 of 1)") || had != 1 {
		t.Errorf("Lend on a node without an idle CPU: %v, had %d", err, had)
	}
	if said := readAsked(t, dir); said != "idle\n" {
		t.Errorf("Slurm was asked for more than what is idle: %s", said)
	}
}

// TestWaitingLeaseReason: a lease that does not start in time is cancelled, and Slurm's reason is in the error.
func TestWaitingLeaseReason(t *testing.T) {
	c, lc := leaseConductor(t, kindSoft)
	lc.devices = &life.Server{}
	var dir string
	c.Slurm, dir = leaseSlurm(t, "1")
	noError(t, os.WriteFile(filepath.Join(dir, "waits"), nil, 0o600))
	ctx, giveUp := context.WithCancel(t.Context())
	go func() {
		defer giveUp() // as if the time were over
		for ctx.Err() == nil {
			if text, err := os.ReadFile(filepath.Join(dir, "asked")); err != nil || len(text) > 0 {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	_, _, err := c.Lend(ctx, "7", 2, "")
	if !errors.Is(err, ErrNotLent) || !strings.Contains(err.Error(), "Slurm's reason why a lease waits: QOSMaxGRESPerUser") {
		t.Errorf("Lend with a lease that does not start: %v", err)
	}
	if said := readAsked(t, dir); said != "idle\nscancel --quiet 9\n" {
		t.Errorf("Slurm was asked: %s", said)
	}
}

// dyingServer is a device server that ends when it is given its first order.
func dyingServer(t *testing.T) *life.Server {
	t.Helper()
	dir := t.TempDir()
	process := exec.Command("sleep", "1000")
	noError(t, process.Start())
	t.Cleanup(func() {
		_ = process.Process.Kill()
		_ = process.Wait()
	})
	boot, err := procfs.BootID()
	noError(t, err)
	start, err := procfs.StartTime(process.Process.Pid)
	noError(t, err)
	record, err := json.Marshal(map[string]any{"boot": boot, "pid": process.Process.Pid, "start": start})
	noError(t, err)
	noError(t, os.WriteFile(filepath.Join(dir, "server.json"), record, 0o600))
	l, err := net.Listen("unixpacket", filepath.Join(dir, "control"))
	noError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		conn, err := l.Accept()
		if err == nil {
			_ = process.Process.Kill()
			conn.Close()
		}
	}()
	s, err := life.Find(t.Context(), dir)
	noError(t, err)
	t.Cleanup(s.Close)
	return s
}

// TestLeaseOfEndedJob: a lease that ends with its borrower is over, though the borrower's device server ends before the
// devices are put elsewhere.
func TestLeaseOfEndedJob(t *testing.T) {
	_, lc := leaseConductor(t, kindSoft)
	lc.devices = dyingServer(t)
	lc.note.Leases = []gpus.Lease{{Job: 9, GPUs: []int{1}}}
	lc.j.placing.Lock()
	defer lc.j.placing.Unlock()
	if lent, err := lc.j.dropLease(t.Context(), 9); err != nil || lent != 1 {
		t.Errorf("dropLease of a borrower that ends: %d GPUs, %v", lent, err)
	}
	if len(lc.note.Leases) != 0 {
		t.Errorf("leases after that: %v, want none", lc.note.Leases)
	}
}
