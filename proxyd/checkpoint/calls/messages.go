// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package calls

import (
	"encoding/json"
	"errors"
	"fmt"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/decisions"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/messages"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/runs"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/upload"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// Each call between nodes, and each reply, is a message of proxyd.proto. The functions of this file
// translate between the messages and the values of this package. A message of another release may
// lack fields, which are then zero.

// emptyCalls are the calls without arguments.
var emptyCalls = map[string]func() *rpc.CallRequest{
	PhaseFreeze: func() *rpc.CallRequest {
		return &rpc.CallRequest{Call: &rpc.CallRequest_Freeze{Freeze: &rpc.FreezeCall{}}}
	},
	PhaseHalt: func() *rpc.CallRequest { return &rpc.CallRequest{Call: &rpc.CallRequest_Halt{Halt: &rpc.HaltCall{}}} },
	Heartbeat: func() *rpc.CallRequest {
		return &rpc.CallRequest{Call: &rpc.CallRequest_Heartbeat{Heartbeat: &rpc.HeartbeatCall{}}}
	},
	Resume: func() *rpc.CallRequest {
		return &rpc.CallRequest{Call: &rpc.CallRequest_Resume{Resume: &rpc.ResumeCall{}}}
	},
	Release: func() *rpc.CallRequest {
		return &rpc.CallRequest{Call: &rpc.CallRequest_Release{Release: &rpc.ReleaseCall{}}}
	},
	NodeRestored: func() *rpc.CallRequest {
		return &rpc.CallRequest{Call: &rpc.CallRequest_NodeRestored{NodeRestored: &rpc.NodeRestoredCall{}}}
	},
	Unrestored: func() *rpc.CallRequest {
		return &rpc.CallRequest{Call: &rpc.CallRequest_Unrestored{Unrestored: &rpc.UnrestoredCall{}}}
	},
	Unlock: func() *rpc.CallRequest {
		return &rpc.CallRequest{Call: &rpc.CallRequest_Unlock{Unlock: &rpc.UnlockCall{}}}
	},
	ShareStatus: func() *rpc.CallRequest {
		return &rpc.CallRequest{Call: &rpc.CallRequest_ShareStatus{ShareStatus: &rpc.ShareStatusCall{}}}
	},
	DropShare: func() *rpc.CallRequest {
		return &rpc.CallRequest{Call: &rpc.CallRequest_DropShare{DropShare: &rpc.DropShareCall{}}}
	},
	View: func() *rpc.CallRequest { return &rpc.CallRequest{Call: &rpc.CallRequest_View{View: &rpc.ViewCall{}}} },
	AwaitDecision: func() *rpc.CallRequest {
		return &rpc.CallRequest{Call: &rpc.CallRequest_AwaitDecision{AwaitDecision: &rpc.AwaitDecisionCall{}}}
	},
}

// ErrUnknown is the answer to a call of a newer release.
var ErrUnknown = errors.New("this call is not known here: is this proxyd older than the leader's?")

// EncodeCall makes the message of a call. args are the call's arguments, or Empty{}.
func EncodeCall(call string, args any) (*rpc.CallRequest, error) {
	if _, none := args.(Empty); none {
		if newCall := emptyCalls[call]; newCall != nil {
			return newCall(), nil
		}
	}
	req := &rpc.CallRequest{}
	switch b := args.(type) {
	case PrepareArgs:
		req.Call = &rpc.CallRequest_Prepare{Prepare: &rpc.PrepareCall{Release: b.Release, Run: int32(b.Run), Stage: b.Stage}}
	case ExchangeArgs:
		req.Call = &rpc.CallRequest_Exchange{Exchange: &rpc.ExchangeCall{Capsule: int32(b.Index), Orders: messages.EncodeOrders(b.Orders)}}
	case DrainArgs:
		req.Call = &rpc.CallRequest_Drain{Drain: &rpc.DrainCall{Sruns: b.Sruns}}
	case DumpArgs:
		req.Call = &rpc.CallRequest_Dump{Dump: &rpc.DumpCall{Ticket: string(b.Ticket), Steps: b.Steps, Cut: b.Cut, Base: b.Base}}
	case MakeCapsulesArgs:
		req.Call = &rpc.CallRequest_MakeCapsules{MakeCapsules: &rpc.MakeCapsulesCall{Number: b.Number, Run: int32(b.Run), Nodes: b.Nodes}}
	case ReconnectDevicesArgs:
		req.Call = &rpc.CallRequest_ReconnectDevices{ReconnectDevices: &rpc.ReconnectDevicesCall{Connect: b.Peers != nil, Peers: encodeAddresses(b.Peers)}}
	case UploadShareArgs:
		req.Call = &rpc.CallRequest_UploadShare{UploadShare: &rpc.UploadShareCall{Ticket: string(b.Ticket)}}
	case runs.Requester:
		m := &rpc.Requester{Node: b.Node, Capsule: int32(b.Capsule), Program: b.Program, At: timestamppb.New(b.At)}
		if call == ProgramRuns {
			req.Call = &rpc.CallRequest_ProgramRuns{ProgramRuns: &rpc.ProgramRunsCall{Requester: m}}
		} else {
			req.Call = &rpc.CallRequest_AsksRequeue{AsksRequeue: &rpc.AsksRequeueCall{Requester: m}}
		}
	case decisions.Request:
		req.Call = &rpc.CallRequest_RequestCheckpoint{RequestCheckpoint: &rpc.RequestCheckpointCall{
			After: rpc.RequestCheckpointCall_After(b.After), Reason: b.Reason, HoldAfterwards: b.HoldAfterwards,
		}}
	default:
		return nil, fmt.Errorf("call %s: no message for %T", call, args)
	}
	return req, nil
}

// DecodeCall returns the name and the arguments of a call.
func DecodeCall(req *rpc.CallRequest) (call string, args any, err error) {
	switch m := req.GetCall().(type) {
	case *rpc.CallRequest_Prepare:
		return PhasePrepare, PrepareArgs{m.Prepare.GetRelease(), int(m.Prepare.GetRun()), m.Prepare.GetStage()}, nil
	case *rpc.CallRequest_Exchange:
		orders := messages.DecodeOrders(m.Exchange.GetOrders())
		if orders == nil {
			return "", nil, ErrUnknown
		}
		return Exchange, ExchangeArgs{int(m.Exchange.GetCapsule()), orders}, nil
	case *rpc.CallRequest_Drain:
		return PhaseDrain, DrainArgs{m.Drain.GetSruns()}, nil
	case *rpc.CallRequest_Dump:
		return PhaseDump, DumpArgs{store.Ticket(m.Dump.GetTicket()), m.Dump.GetSteps(), m.Dump.GetCut(), m.Dump.GetBase()}, nil
	case *rpc.CallRequest_MakeCapsules:
		return MakeCapsules, MakeCapsulesArgs{m.MakeCapsules.GetNumber(), int(m.MakeCapsules.GetRun()), m.MakeCapsules.GetNodes()}, nil
	case *rpc.CallRequest_ReconnectDevices:
		var b ReconnectDevicesArgs
		if m.ReconnectDevices.GetConnect() {
			b.Peers = decodeAddresses(m.ReconnectDevices.GetPeers())
		}
		return ReconnectDevices, b, nil
	case *rpc.CallRequest_UploadShare:
		return UploadShare, UploadShareArgs{store.Ticket(m.UploadShare.GetTicket())}, nil
	case *rpc.CallRequest_AsksRequeue:
		return AsksRequeue, decodeRequester(m.AsksRequeue.GetRequester()), nil
	case *rpc.CallRequest_ProgramRuns:
		return ProgramRuns, decodeRequester(m.ProgramRuns.GetRequester()), nil
	case *rpc.CallRequest_RequestCheckpoint:
		after := m.RequestCheckpoint.GetAfter()
		if _, known := rpc.RequestCheckpointCall_After_name[int32(after)]; !known {
			return "", nil, ErrUnknown
		}
		return RequestCheckpoint, decisions.Request{
			After: decisions.Verdict(after), Reason: m.RequestCheckpoint.GetReason(), HoldAfterwards: m.RequestCheckpoint.GetHoldAfterwards(),
		}, nil
	}
	call = emptyCallName(req)
	if call == "" {
		return "", nil, ErrUnknown
	}
	return call, Empty{}, nil
}

// emptyCallName returns the name of a call without arguments; "" for a call that is not known here.
func emptyCallName(req *rpc.CallRequest) string {
	switch req.GetCall().(type) {
	case *rpc.CallRequest_Freeze:
		return PhaseFreeze
	case *rpc.CallRequest_Halt:
		return PhaseHalt
	case *rpc.CallRequest_Heartbeat:
		return Heartbeat
	case *rpc.CallRequest_Resume:
		return Resume
	case *rpc.CallRequest_Release:
		return Release
	case *rpc.CallRequest_NodeRestored:
		return NodeRestored
	case *rpc.CallRequest_Unrestored:
		return Unrestored
	case *rpc.CallRequest_Unlock:
		return Unlock
	case *rpc.CallRequest_ShareStatus:
		return ShareStatus
	case *rpc.CallRequest_DropShare:
		return DropShare
	case *rpc.CallRequest_View:
		return View
	case *rpc.CallRequest_AwaitDecision:
		return AwaitDecision
	}
	return ""
}

// EncodeReply makes the message of a reply.
func EncodeReply(reply any) (*rpc.CallReply, error) {
	m := &rpc.CallReply{}
	var err error
	switch r := reply.(type) {
	case Empty:
	case PrepareReply:
		m.Reply = &rpc.CallReply_Prepare{Prepare: r.toMessage()}
	case ExchangeReply:
		m.Reply = &rpc.CallReply_Exchange{Exchange: &rpc.ExchangeReply{
			Forgotten: r.Forgotten, Busy: r.Busy, Error: r.Error, Events: messages.EncodeEvents(r.Events),
		}}
	case DumpReply:
		d := &rpc.DumpReply{StageFull: r.StageFull, BaseUnusable: r.BaseUnusable, BaseUnused: r.BaseUnused}
		if d.Part, err = encodePart(r.Part); err == nil {
			d.Capsules, err = json.Marshal(r.Capsules)
		}
		m.Reply = &rpc.CallReply_Dump{Dump: d}
	case []string:
		m.Reply = &rpc.CallReply_Unrestored{Unrestored: &rpc.UnrestoredReply{Programs: r}}
	case map[int]string:
		m.Reply = &rpc.CallReply_ReconnectDevices{ReconnectDevices: &rpc.ReconnectDevicesReply{Addresses: encodeAddresses(r)}}
	case upload.ShareReply:
		u := &rpc.UploadShareReply{Lost: r.Lost}
		u.Part, err = encodePart(r.Part)
		m.Reply = &rpc.CallReply_UploadShare{UploadShare: u}
	case upload.ShareStatus:
		m.Reply = &rpc.CallReply_ShareStatus{ShareStatus: &rpc.ShareStatusReply{Has: r.Has, Done: r.Done, Total: r.Total, LastError: r.LastError}}
	case bool:
		m.Reply = &rpc.CallReply_ProgramRuns{ProgramRuns: &rpc.ProgramRunsReply{Runs: r}}
	case []CapsuleView:
		m.Reply = &rpc.CallReply_View{View: encodeViews(r)}
	default:
		err = fmt.Errorf("no message for the reply %T", reply)
	}
	return m, err
}

// DecodeReply stores a reply in into, a pointer to the value that EncodeReply got.
func DecodeReply(m *rpc.CallReply, into any) error {
	switch to := into.(type) {
	case *PrepareReply:
		to.readMessage(m.GetPrepare())
	case *ExchangeReply:
		r := m.GetExchange()
		*to = ExchangeReply{Forgotten: r.GetForgotten(), Busy: r.GetBusy(), Error: r.GetError(), Events: messages.DecodeEvents(r.GetEvents())}
	case *DumpReply:
		r := m.GetDump()
		*to = DumpReply{StageFull: r.GetStageFull(), BaseUnusable: r.GetBaseUnusable(), BaseUnused: r.GetBaseUnused()}
		if err := decodeManifestJSON(r.GetPart(), &to.Part); err != nil {
			return err
		}
		return decodeManifestJSON(r.GetCapsules(), &to.Capsules)
	case *[]string:
		*to = m.GetUnrestored().GetPrograms()
	case *map[int]string:
		*to = decodeAddresses(m.GetReconnectDevices().GetAddresses())
	case *upload.ShareReply:
		*to = upload.ShareReply{Lost: m.GetUploadShare().GetLost()}
		return decodeManifestJSON(m.GetUploadShare().GetPart(), &to.Part)
	case *upload.ShareStatus:
		r := m.GetShareStatus()
		*to = upload.ShareStatus{Has: r.GetHas(), Done: r.GetDone(), Total: r.GetTotal(), LastError: r.GetLastError()}
	case *bool:
		*to = m.GetProgramRuns().GetRuns()
	case *[]CapsuleView:
		*to = decodeViews(m.GetView())
	default:
		return fmt.Errorf("no reply is read into %T", into)
	}
	return nil
}

func (r PrepareReply) toMessage() *rpc.PrepareReply {
	m := &rpc.PrepareReply{
		Capsules: int32(r.Capsules), Programs: int32(r.Programs), Bytes: r.Bytes, Unrestored: r.Unrestored, Steps: r.Steps,
		TaskCounts: encodeCounts(r.TaskCounts), TasksHere: encodeCounts(r.TasksHere), Staged: r.Staged, ManyFiles: r.ManyFiles,
		Obstacles: messages.EncodeObstacles(r.Obstacles),
	}
	for _, index := range r.Devices {
		m.Devices = append(m.Devices, int32(index))
	}
	return m
}

func (r *PrepareReply) readMessage(m *rpc.PrepareReply) {
	*r = PrepareReply{
		Capsules: int(m.GetCapsules()), Programs: int(m.GetPrograms()), Bytes: m.GetBytes(), Unrestored: m.GetUnrestored(), Steps: m.GetSteps(),
		TaskCounts: decodeCounts(m.GetTaskCounts()), TasksHere: decodeCounts(m.GetTasksHere()), Staged: m.GetStaged(), ManyFiles: m.GetManyFiles(),
		Obstacles: messages.DecodeObstacles(m.GetObstacles()),
	}
	for _, index := range m.GetDevices() {
		r.Devices = append(r.Devices, int(index))
	}
}

func encodeViews(views []CapsuleView) *rpc.ViewReply {
	m := &rpc.ViewReply{}
	for _, v := range views {
		m.Capsules = append(m.Capsules, &rpc.CapsuleView{
			Capsule: v.Capsule, Obstacles: messages.EncodeObstacles(v.Obstacles), Outside: messages.EncodeObstacles(v.Outside),
		})
	}
	return m
}

func decodeViews(m *rpc.ViewReply) (views []CapsuleView) {
	for _, v := range m.GetCapsules() {
		views = append(views, CapsuleView{
			Capsule: v.GetCapsule(), Obstacles: messages.DecodeObstacles(v.GetObstacles()), Outside: messages.DecodeObstacles(v.GetOutside()),
		})
	}
	return views
}

func decodeRequester(m *rpc.Requester) runs.Requester {
	return runs.Requester{Node: m.GetNode(), Capsule: int(m.GetCapsule()), Program: m.GetProgram(), At: m.GetAt().AsTime()}
}

func encodeCounts(counts map[string]int) map[string]int32 {
	m := map[string]int32{}
	for key, n := range counts {
		m[key] = int32(n)
	}
	return m
}

func decodeCounts(m map[string]int32) map[string]int {
	counts := map[string]int{}
	for key, n := range m {
		counts[key] = int(n)
	}
	return counts
}

func encodeAddresses(addresses map[int]string) map[int32]string {
	m := map[int32]string{}
	for index, address := range addresses {
		m[int32(index)] = address
	}
	return m
}

func decodeAddresses(m map[int32]string) map[int]string {
	addresses := map[int]string{}
	for index, address := range m {
		addresses[int(index)] = address
	}
	return addresses
}

// encodePart encodes a part of a manifest as the manifest stores it; nil gives no bytes. The type store.NodeStreams is the
// only definition of that form: docs/decisions/19-manifest-parts-as-stored.md says why proxyd.proto has no second.
func encodePart(part *store.NodeStreams) ([]byte, error) {
	if part == nil {
		return nil, nil
	}
	return json.Marshal(part)
}

// decodeManifestJSON decodes a node's entry of a manifest into the value into. An empty b leaves into unchanged.
func decodeManifestJSON(b []byte, into any) error {
	if len(b) == 0 {
		return nil
	}
	return json.Unmarshal(b, into)
}
