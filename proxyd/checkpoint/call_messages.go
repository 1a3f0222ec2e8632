// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"encoding/json"
	"fmt"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/runs"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/decisions"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/messages"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/upload"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// Each call between nodes, and each reply, is a message of proxyd.proto. The functions of this file
// translate between the messages and the values of this package. A message of another release may
// lack fields, which are then zero.

// emptyCalls are the calls without arguments.
var emptyCalls = map[string]func() *rpc.CallRequest{
	phaseFreeze: func() *rpc.CallRequest {
		return &rpc.CallRequest{Call: &rpc.CallRequest_Freeze{Freeze: &rpc.FreezeCall{}}}
	},
	phaseHalt: func() *rpc.CallRequest { return &rpc.CallRequest{Call: &rpc.CallRequest_Halt{Halt: &rpc.HaltCall{}}} },
	callHeartbeat: func() *rpc.CallRequest {
		return &rpc.CallRequest{Call: &rpc.CallRequest_Heartbeat{Heartbeat: &rpc.HeartbeatCall{}}}
	},
	callResume: func() *rpc.CallRequest {
		return &rpc.CallRequest{Call: &rpc.CallRequest_Resume{Resume: &rpc.ResumeCall{}}}
	},
	callRelease: func() *rpc.CallRequest {
		return &rpc.CallRequest{Call: &rpc.CallRequest_Release{Release: &rpc.ReleaseCall{}}}
	},
	callNodeRestored: func() *rpc.CallRequest {
		return &rpc.CallRequest{Call: &rpc.CallRequest_NodeRestored{NodeRestored: &rpc.NodeRestoredCall{}}}
	},
	callUnrestored: func() *rpc.CallRequest {
		return &rpc.CallRequest{Call: &rpc.CallRequest_Unrestored{Unrestored: &rpc.UnrestoredCall{}}}
	},
	callUnlock: func() *rpc.CallRequest {
		return &rpc.CallRequest{Call: &rpc.CallRequest_Unlock{Unlock: &rpc.UnlockCall{}}}
	},
	callShareStatus: func() *rpc.CallRequest {
		return &rpc.CallRequest{Call: &rpc.CallRequest_ShareStatus{ShareStatus: &rpc.ShareStatusCall{}}}
	},
	callDropShare: func() *rpc.CallRequest {
		return &rpc.CallRequest{Call: &rpc.CallRequest_DropShare{DropShare: &rpc.DropShareCall{}}}
	},
	callView: func() *rpc.CallRequest { return &rpc.CallRequest{Call: &rpc.CallRequest_View{View: &rpc.ViewCall{}}} },
	callAwaitDecision: func() *rpc.CallRequest {
		return &rpc.CallRequest{Call: &rpc.CallRequest_AwaitDecision{AwaitDecision: &rpc.AwaitDecisionCall{}}}
	},
}

// encodeCall makes the message of a call. args are the call's arguments, or empty{}.
func encodeCall(call string, args any) (*rpc.CallRequest, error) {
	if _, none := args.(empty); none {
		if newCall := emptyCalls[call]; newCall != nil {
			return newCall(), nil
		}
	}
	req := &rpc.CallRequest{}
	switch b := args.(type) {
	case prepareRequest:
		req.Call = &rpc.CallRequest_Prepare{Prepare: &rpc.PrepareCall{Release: b.Release, Run: int32(b.Run), Stage: b.Stage}}
	case exchangeRequest:
		req.Call = &rpc.CallRequest_Exchange{Exchange: &rpc.ExchangeCall{Capsule: int32(b.Index), Orders: messages.EncodeOrders(b.Orders)}}
	case drainRequest:
		req.Call = &rpc.CallRequest_Drain{Drain: &rpc.DrainCall{Sruns: b.Sruns}}
	case dumpRequest:
		req.Call = &rpc.CallRequest_Dump{Dump: &rpc.DumpCall{Ticket: string(b.Ticket), Steps: b.Steps, Cut: b.Cut, Base: b.Base}}
	case makeCapsulesRequest:
		req.Call = &rpc.CallRequest_MakeCapsules{MakeCapsules: &rpc.MakeCapsulesCall{Number: b.Number, Run: int32(b.Run), Nodes: b.Today}}
	case reconnectRequest:
		req.Call = &rpc.CallRequest_ReconnectDevices{ReconnectDevices: &rpc.ReconnectDevicesCall{Connect: b.Peers != nil, Peers: encodeAddresses(b.Peers)}}
	case uploadRequest:
		req.Call = &rpc.CallRequest_UploadShare{UploadShare: &rpc.UploadShareCall{Ticket: string(b.Ticket)}}
	case runs.Requester:
		m := &rpc.Requester{Node: b.Node, Capsule: int32(b.Capsule), Program: b.Program, At: timestamppb.New(b.At)}
		if call == callProgramRuns {
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

// decodeCall returns the name and the arguments of a call.
func decodeCall(req *rpc.CallRequest) (call string, args any, err error) {
	switch m := req.GetCall().(type) {
	case *rpc.CallRequest_Prepare:
		return phasePrepare, prepareRequest{m.Prepare.GetRelease(), int(m.Prepare.GetRun()), m.Prepare.GetStage()}, nil
	case *rpc.CallRequest_Exchange:
		orders := messages.DecodeOrders(m.Exchange.GetOrders())
		if orders == nil {
			return "", nil, errUnknownCall
		}
		return callExchange, exchangeRequest{int(m.Exchange.GetCapsule()), orders}, nil
	case *rpc.CallRequest_Drain:
		return phaseDrain, drainRequest{m.Drain.GetSruns()}, nil
	case *rpc.CallRequest_Dump:
		return phaseDump, dumpRequest{store.Ticket(m.Dump.GetTicket()), m.Dump.GetSteps(), m.Dump.GetCut(), m.Dump.GetBase()}, nil
	case *rpc.CallRequest_MakeCapsules:
		return callMakeCapsules, makeCapsulesRequest{m.MakeCapsules.GetNumber(), int(m.MakeCapsules.GetRun()), m.MakeCapsules.GetNodes()}, nil
	case *rpc.CallRequest_ReconnectDevices:
		var b reconnectRequest
		if m.ReconnectDevices.GetConnect() {
			b.Peers = decodeAddresses(m.ReconnectDevices.GetPeers())
		}
		return callReconnectDevices, b, nil
	case *rpc.CallRequest_UploadShare:
		return callUpload, uploadRequest{store.Ticket(m.UploadShare.GetTicket())}, nil
	case *rpc.CallRequest_AsksRequeue:
		return callAsksRequeue, decodeRequester(m.AsksRequeue.GetRequester()), nil
	case *rpc.CallRequest_ProgramRuns:
		return callProgramRuns, decodeRequester(m.ProgramRuns.GetRequester()), nil
	case *rpc.CallRequest_RequestCheckpoint:
		after := m.RequestCheckpoint.GetAfter()
		if _, known := rpc.RequestCheckpointCall_After_name[int32(after)]; !known {
			return "", nil, errUnknownCall
		}
		return callRequestCheckpoint, decisions.Request{
			After: decisions.Verdict(after), Reason: m.RequestCheckpoint.GetReason(), HoldAfterwards: m.RequestCheckpoint.GetHoldAfterwards(),
		}, nil
	}
	call = emptyCallName(req)
	if call == "" {
		return "", nil, errUnknownCall
	}
	return call, empty{}, nil
}

// emptyCallName returns the name of a call without arguments; "" for a call that is not known here.
func emptyCallName(req *rpc.CallRequest) string {
	switch req.GetCall().(type) {
	case *rpc.CallRequest_Freeze:
		return phaseFreeze
	case *rpc.CallRequest_Halt:
		return phaseHalt
	case *rpc.CallRequest_Heartbeat:
		return callHeartbeat
	case *rpc.CallRequest_Resume:
		return callResume
	case *rpc.CallRequest_Release:
		return callRelease
	case *rpc.CallRequest_NodeRestored:
		return callNodeRestored
	case *rpc.CallRequest_Unrestored:
		return callUnrestored
	case *rpc.CallRequest_Unlock:
		return callUnlock
	case *rpc.CallRequest_ShareStatus:
		return callShareStatus
	case *rpc.CallRequest_DropShare:
		return callDropShare
	case *rpc.CallRequest_View:
		return callView
	case *rpc.CallRequest_AwaitDecision:
		return callAwaitDecision
	}
	return ""
}

// encodeReply makes the message of a reply.
func encodeReply(reply any) (*rpc.CallReply, error) {
	m := &rpc.CallReply{}
	var err error
	switch r := reply.(type) {
	case empty:
	case prepareReply:
		m.Reply = &rpc.CallReply_Prepare{Prepare: r.toMessage()}
	case exchangeReply:
		m.Reply = &rpc.CallReply_Exchange{Exchange: &rpc.ExchangeReply{
			Forgotten: r.Forgotten, Busy: r.Busy, Error: r.Error, Events: messages.EncodeEvents(r.Events),
		}}
	case dumpReply:
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

// decodeReply stores a reply in into, a pointer to the value that encodeReply got.
func decodeReply(m *rpc.CallReply, into any) error {
	switch to := into.(type) {
	case *prepareReply:
		to.readMessage(m.GetPrepare())
	case *exchangeReply:
		r := m.GetExchange()
		*to = exchangeReply{Forgotten: r.GetForgotten(), Busy: r.GetBusy(), Error: r.GetError(), Events: messages.DecodeEvents(r.GetEvents())}
	case *dumpReply:
		r := m.GetDump()
		*to = dumpReply{StageFull: r.GetStageFull(), BaseUnusable: r.GetBaseUnusable(), BaseUnused: r.GetBaseUnused()}
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

func (r prepareReply) toMessage() *rpc.PrepareReply {
	m := &rpc.PrepareReply{
		Capsules: int32(r.Capsules), Programs: int32(r.Programs), Bytes: r.Bytes, Unrestored: r.Unrestored, Steps: r.Steps,
		TaskCounts: encodeCounts(r.TaskCounts), TasksHere: encodeCounts(r.TasksHere), Staged: r.Staged,
		Obstacles: messages.EncodeObstacles(r.Obstacles),
	}
	for _, index := range r.Devices {
		m.Devices = append(m.Devices, int32(index))
	}
	return m
}

func (r *prepareReply) readMessage(m *rpc.PrepareReply) {
	*r = prepareReply{
		Capsules: int(m.GetCapsules()), Programs: int(m.GetPrograms()), Bytes: m.GetBytes(), Unrestored: m.GetUnrestored(), Steps: m.GetSteps(),
		TaskCounts: decodeCounts(m.GetTaskCounts()), TasksHere: decodeCounts(m.GetTasksHere()), Staged: m.GetStaged(),
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

// encodePart encodes a part of a manifest as the manifest has it; nothing for nil. The type of store.Part is the one
// definition of that form: docs/decisions/19-manifest-parts-as-stored.md says why proxyd.proto has no second.
func encodePart(part *store.Part) ([]byte, error) {
	if part == nil {
		return nil, nil
	}
	return json.Marshal(part)
}

// decodeManifestJSON decodes what a manifest has of a node; nothing leaves into as it is.
func decodeManifestJSON(b []byte, into any) error {
	if len(b) == 0 {
		return nil
	}
	return json.Unmarshal(b, into)
}
