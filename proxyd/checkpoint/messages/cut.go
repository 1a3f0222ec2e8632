// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package messages

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/singularity-slurm/singularity-slurm/proxyd/barrier"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/cut"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// EncodeOrders makes the message of orders; nil for nil.
func EncodeOrders(o *cut.Orders) *rpc.CutOrders {
	if o == nil {
		return nil
	}
	return &rpc.CutOrders{
		Attempt: o.Attempt, Lease: encodeDuration(o.LeaderTimeout), Wait: encodeDuration(o.Wait), Heard: o.Heard, Orders: convertAll(o.Do, encodeOrder),
	}
}

// DecodeOrders is the inverse of EncodeOrders.
func DecodeOrders(m *rpc.CutOrders) *cut.Orders {
	if m == nil {
		return nil
	}
	return &cut.Orders{
		Attempt: m.GetAttempt(), LeaderTimeout: m.GetLease().AsDuration(), Wait: m.GetWait().AsDuration(), Heard: m.GetHeard(), Do: convertAll(m.GetOrders(), decodeOrder),
	}
}

func encodeOrder(o *cut.Order) *rpc.CutOrder {
	return &rpc.CutOrder{
		Open: o.Open, Shut: o.Shut, Withdraw: o.Withdraw, Raise: convertAll(o.Raise, encodeTargets), Nudge: o.Nudge, Create: convertAll(o.Create, encodeComm),
		Read: o.Read, Drain: o.Drain, ShutCalls: o.ShutCalls, Keep: o.Keep, Limit: convertAll(o.Limit, encodeTargets), Stay: o.Stay,
		Forget: o.Forget, Past: convertAll(o.Past, encodeComm),
	}
}

func decodeOrder(m **rpc.CutOrder) cut.Order {
	o := *m
	return cut.Order{
		Open: o.GetOpen(), Shut: o.GetShut(), Withdraw: o.GetWithdraw(), Raise: convertAll(o.GetRaise(), decodeTargets), Nudge: o.GetNudge(),
		Create: convertAll(o.GetCreate(), decodeComm), Read: o.GetRead(), Drain: o.GetDrain(), ShutCalls: o.GetShutCalls(), Keep: o.GetKeep(),
		Limit: convertAll(o.GetLimit(), decodeTargets), Stay: o.GetStay(), Forget: o.GetForget(), Past: convertAll(o.GetPast(), decodeComm),
	}
}

func encodeComm(c *barrier.Comm) uint64 { return uint64(*c) }

func decodeComm(c *uint64) barrier.Comm { return barrier.Comm(*c) }

func encodeTargets(r *cut.Raise) *rpc.CutTargets {
	return &rpc.CutTargets{Process: r.Process, Targets: convertAll(r.Targets, encodeCount)}
}

func decodeTargets(m **rpc.CutTargets) cut.Raise {
	return cut.Raise{Process: (*m).GetProcess(), Targets: convertAll((*m).GetTargets(), decodeCount)}
}

func encodeCount(c *barrier.Count) *rpc.CutCount {
	return &rpc.CutCount{Communicator: uint64(c.Comm), Member: c.Member, Kind: rpc.CutCount_Kind(c.Kind), Peer: c.Peer, N: c.N}
}

func decodeCount(m **rpc.CutCount) barrier.Count {
	c := *m
	return barrier.Count{
		Key: barrier.Key{Comm: barrier.Comm(c.GetCommunicator()), Member: c.GetMember(), Kind: barrier.Kind(c.GetKind()), Peer: c.GetPeer()}, //nolint:gosec // the number that encodeCount has sent
		N:   c.GetN(),
	}
}

// EncodeEvents makes the message of events; nil for nil.
func EncodeEvents(e *cut.Events) *rpc.CutEvents {
	if e == nil {
		return nil
	}
	return &rpc.CutEvents{Next: e.Next, Events: convertAll(e.List, encodeEvent)}
}

// DecodeEvents is the inverse of EncodeEvents.
func DecodeEvents(m *rpc.CutEvents) *cut.Events {
	if m == nil {
		return nil
	}
	return &cut.Events{Next: m.GetNext(), List: convertAll(m.GetEvents(), decodeEvent)}
}

func encodeEvent(e *cut.Event) *rpc.CutEvent {
	m := &rpc.CutEvent{
		Kind: string(e.Kind), Process: e.Process, Counts: convertAll(e.Counts, encodeCount), Nudge: e.Nudge, Quiet: e.Quiet, Reason: e.Reason,
		Processes: convertAll(e.Processes, encodeProcess), Places: convertAll(e.Places, encodePlace),
	}
	if e.Place != nil {
		m.Place = encodePlace(e.Place)
	}
	return m
}

func decodeEvent(m **rpc.CutEvent) cut.Event {
	e := *m
	event := cut.Event{
		Kind: cut.Kind(e.GetKind()), Process: e.GetProcess(), Counts: convertAll(e.GetCounts(), decodeCount), Nudge: e.GetNudge(), Quiet: e.GetQuiet(), Reason: e.GetReason(),
		Processes: convertAll(e.GetProcesses(), decodeProcess), Places: convertAll(e.GetPlaces(), decodePlace),
	}
	if m := e.GetPlace(); m != nil {
		place := decodePlace(&m)
		event.Place = &place
	}
	return event
}

func encodeProcess(p *cut.Process) *rpc.CutProcess {
	return &rpc.CutProcess{Id: p.ID, Pid: int64(p.PID), Ended: p.Ended}
}

func decodeProcess(m **rpc.CutProcess) cut.Process {
	return cut.Process{ID: (*m).GetId(), PID: int((*m).GetPid()), Ended: (*m).GetEnded()}
}

func encodePlace(p *cut.Place) *rpc.CutPlace {
	return &rpc.CutPlace{
		Communicator: uint64(p.Comm), Size: int64(p.Size), Member: p.Member, Process: p.Process, Made: p.Made, Left: p.Left, Broken: p.Broken,
		Counts: convertAll(p.Counts, encodeCount),
	}
}

func decodePlace(m **rpc.CutPlace) cut.Place {
	p := *m
	return cut.Place{
		Comm: barrier.Comm(p.GetCommunicator()), Size: int(p.GetSize()), Member: p.GetMember(), Process: p.GetProcess(), Made: p.GetMade(), Left: p.GetLeft(), Broken: p.GetBroken(),
		Counts: convertAll(p.GetCounts(), decodeCount),
	}
}

// encodeDuration returns nil for 0.
func encodeDuration(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

// convertAll converts all elements of a list; nil for an empty list.
func convertAll[From, To any](list []From, convert func(*From) To) []To {
	if len(list) == 0 {
		return nil
	}
	all := make([]To, len(list))
	for i := range list {
		all[i] = convert(&list[i])
	}
	return all
}
