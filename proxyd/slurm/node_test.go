// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurm

import (
	"strings"
	"testing"
)

// Lines as scontrol show node -d -o prints them: of 26.05, and of 22.05, with a reason that imitates fields.
const (
	busyNode = "NodeName=n1 Arch=x86_64 CoresPerSocket=2 CPUAlloc=2 CPUEfctv=2 CPUTot=2 CPULoad=0.10 AvailableFeatures=(null) ActiveFeatures=(null) " +
		"Gres=gpu:a100:2(S:0-1),nic:1 GresDrain=N/A GresUsed=gpu:a100:1(IDX:0),nic:0 NodeAddr=n1 NodeHostName=n1 Version=26.05.1 OS=Linux 6.12.0 #1 SMP " +
		"RealMemory=1000 AllocMem=900 FreeMem=7000 Sockets=1 Boards=1 MemSpecLimit=50 State=MIXED ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A " +
		"Partitions=main CfgTRES=cpu=2,mem=1000M,billing=2,gres/gpu=2 AllocTRES=cpu=2,mem=900M,gres/gpu=1 Comment=CPUAlloc=0\n"
	oldNode = "NodeName=n1 CPUAlloc=1 CPUTot=2 Gres=gpu:2 GresUsed=gpu:0(IDX:N/A) RealMemory=1000 AllocMem=0 State=IDLE+COMPLETING Reason=AllocMem=1000 [root@2026]\n"
)

// TestIdle: the resources that a node lacks for leases are named, with the idle ones. Where a job is about to end, no resource counts as lacking.
func TestIdle(t *testing.T) {
	for _, c := range []struct {
		name, line string
		leases     int
		want       string
	}{
		{"two resources", busyNode, 1, "for a lease, n1 lacks idle CPUs (0 of 1), idle memory (50 of 64 MB)"},
		{"three resources", busyNode, 2, "for 2 leases, n1 lacks idle CPUs (0 of 2), idle memory (50 of 128 MB), idle GPUs (1 of 2)"},
		{"enough", strings.NewReplacer("CPUAlloc=2", "CPUAlloc=1", "AllocMem=900", "AllocMem=886").Replace(busyNode), 1, ""},
		{"without the CPUs that Slurm leaves out", strings.Replace(busyNode, "CPUTot=2", "CPUTot=4", 1), 1, "for a lease, n1 lacks idle CPUs (0 of 1), idle memory (50 of 64 MB)"},
		{"a job ends there", strings.Replace(busyNode, "MIXED", "MIXED+COMPLETING", 1), 2, ""},
		{"an older release", strings.Replace(oldNode, "+COMPLETING", "", 1), 3, "for 3 leases, n1 lacks idle CPUs (1 of 3), idle GPUs (2 of 3)"},
		{"drained", strings.Replace(oldNode, "IDLE+COMPLETING", "MIXED+DRAIN", 1), 1, "n1 is MIXED+DRAIN: Slurm starts no job there"},
		{"no answer", strings.Replace(oldNode, "IDLE+COMPLETING", "DOWN*", 1), 1, "n1 is DOWN*: Slurm starts no job there"},
	} {
		idle, err := parseIdle(c.line, "n1")
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := idle.WhyNoLeases(c.leases); got != c.want {
			t.Errorf("%s: %+v lacks %q, want %q", c.name, idle, got, c.want)
		}
	}
	for _, bad := range []string{"", "Node n1 not found", strings.Replace(busyNode, "AllocMem=900", "AllocMem=?", 1)} {
		if idle, err := parseIdle(bad, "n1"); err == nil {
			t.Errorf("parseIdle of %q = %+v, want an error", bad, idle)
		}
	}
}
