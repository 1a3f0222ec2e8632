// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package messages

import (
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/gpus"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/processes"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// EncodeProgram describes a program of a capsule. resident are the bytes of its memory, since is its start on this node.
func EncodeProgram(p *capsule.Program, resident uint64, since time.Time, command string) *rpc.Program {
	return &rpc.Program{
		Name: p.Name, Pid: int64(p.First), State: describeState(p), Status: uint32(p.Status),
		Rss: resident, Started: encodeTime(since), Command: command,
	}
}

func describeState(p *capsule.Program) string {
	switch {
	case p.Ended:
		return "ended"
	case p.Waiting:
		return "waits to be restored"
	case p.Captured:
		return "captured"
	case p.Frozen:
		return "frozen"
	}
	return "running"
}

// EncodeDevices describes the devices of a capsule from the status of their server. shared is the server's name if it
// serves other capsules too.
func EncodeDevices(st *server.Status, shared string) *rpc.Devices {
	out := &rpc.Devices{Server: shared, Missed: st.Missed, Faults: st.Faults, Stopped: st.Stopped, Reductions: st.Reductions, Products: st.Products}
	for _, d := range st.Devices {
		out.Devices = append(out.Devices, &rpc.Device{Name: d.Name, Memory: d.Memory, Used: d.Used})
	}
	for _, s := range st.Sharing {
		out.Sharing = append(out.Sharing, &rpc.Sharing{
			Devices: uint32(s.Devices), Spaces: uint32(s.Spaces), Instructions: s.Instructions, Switches: s.Switches, Interrupted: s.Interrupted,
			SwitchTime: durationpb.New(s.SwitchTime), SwappedOut: s.SwappedOut, SwappedIn: s.SwappedIn, SwapTime: durationpb.New(s.SwapTime), SwapSpared: s.SwapSpared,
			Peak: s.Peak, Alike: s.Alike,
			Common: s.Common, Saved: s.Saved, Private: s.Private, Unshared: s.Unshared, Rung: s.Rung,
			Once: s.Once, Own: s.Own, Why: s.Why,
		})
	}
	for _, p := range st.Processes {
		out.Processes = append(out.Processes, &rpc.DeviceProcess{Pid: int64(p.Capsule), Used: p.Used, Fault: p.Fault})
	}
	return out
}

// EncodeLeases describes the leases of a capsule.
func EncodeLeases(leases []gpus.Lease) []*rpc.Lease {
	return convertAll(leases, func(l *gpus.Lease) *rpc.Lease {
		return &rpc.Lease{Job: l.Job, Gpus: uint32(len(l.GPUs))} //nolint:gosec // GPUs of a node
	})
}

// EncodeObstacles makes the messages of obstacles. Names of processes and files, which may have any bytes, become UTF-8.
func EncodeObstacles(obstacles []processes.Obstacle) []*rpc.Obstacle {
	return convertAll(obstacles, func(o *processes.Obstacle) *rpc.Obstacle {
		return &rpc.Obstacle{
			Program: o.Program, Pid: int64(o.PID), Command: strings.ToValidUTF8(o.Name, "?"), What: strings.ToValidUTF8(o.What, "?"), Cure: o.Cure,
			Node: o.Node, Since: encodeTime(o.Since),
		}
	})
}

// DecodeObstacles is the inverse of EncodeObstacles.
func DecodeObstacles(obstacles []*rpc.Obstacle) []processes.Obstacle {
	return convertAll(obstacles, func(m **rpc.Obstacle) processes.Obstacle {
		o := *m
		return processes.Obstacle{
			Program: o.GetProgram(), PID: int(o.GetPid()), Name: o.GetCommand(), What: o.GetWhat(), Cure: o.GetCure(), Node: o.GetNode(), Since: decodeTime(o.GetSince()),
		}
	})
}

// encodeTime returns nil for the zero time: the time is not known.
func encodeTime(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// decodeTime is the inverse of encodeTime.
func decodeTime(m *timestamppb.Timestamp) time.Time {
	if m == nil {
		return time.Time{}
	}
	return m.AsTime()
}
