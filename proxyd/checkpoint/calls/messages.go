// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package calls

import (
	"encoding/json"
	"errors"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/decisions"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/messages"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/runs"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/upload"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// Each call between nodes, and each reply, is a message of proxyd.proto. The functions of this file translate between the
// messages and the values of this package.

// ErrUnknown is the answer to a call of a newer release.
var ErrUnknown = errors.New("this call is not known here: is this proxyd older than the leader's?")

// callMessages are the messages of all calls in proxyd.proto. The name of a call is the name of its field.
var callMessages = (&rpc.CallRequest{}).ProtoReflect().Descriptor().Oneofs().ByName("call")

// NameOf returns the name of the call that a message makes; "" for a call that is not known here.
func NameOf(req *rpc.CallRequest) string {
	field := req.ProtoReflect().WhichOneof(callMessages)
	if field == nil {
		return ""
	}
	return string(field.Name())
}

// emptyRequest makes the message of a call without arguments.
func emptyRequest(name string) *rpc.CallRequest {
	req := &rpc.CallRequest{}
	m := req.ProtoReflect()
	field := callMessages.Fields().ByName(protoreflect.Name(name))
	m.Set(field, m.NewField(field))
	return req
}

func encodeNoReply(Empty) (*rpc.CallReply, error) { return &rpc.CallReply{}, nil }

func decodeNoReply(*rpc.CallReply) (Empty, error) { return Empty{}, nil }

func encodePrepareArgs(a PrepareArgs) *rpc.CallRequest {
	return &rpc.CallRequest{Call: &rpc.CallRequest_Prepare{Prepare: &rpc.PrepareCall{Release: a.Release, Run: int32(a.Run), Stage: a.Stage}}}
}

func decodePrepareArgs(req *rpc.CallRequest) (PrepareArgs, error) {
	m := req.GetPrepare()
	return PrepareArgs{m.GetRelease(), int(m.GetRun()), m.GetStage()}, nil
}

func encodePrepareReply(r PrepareReply) (*rpc.CallReply, error) {
	m := &rpc.PrepareReply{
		Capsules: int32(r.Capsules), Programs: int32(r.Programs), Bytes: r.Bytes, Unrestored: r.Unrestored, Steps: r.Steps,
		TaskCounts: encodeCounts(r.TaskCounts), TasksHere: encodeCounts(r.TasksHere), Staged: r.Staged, ManyFiles: r.ManyFiles,
		Obstacles: messages.EncodeObstacles(r.Obstacles),
	}
	for _, index := range r.Devices {
		m.Devices = append(m.Devices, int32(index))
	}
	return &rpc.CallReply{Reply: &rpc.CallReply_Prepare{Prepare: m}}, nil
}

func decodePrepareReply(reply *rpc.CallReply) (PrepareReply, error) {
	m := reply.GetPrepare()
	r := PrepareReply{
		Capsules: int(m.GetCapsules()), Programs: int(m.GetPrograms()), Bytes: m.GetBytes(), Unrestored: m.GetUnrestored(), Steps: m.GetSteps(),
		TaskCounts: decodeCounts(m.GetTaskCounts()), TasksHere: decodeCounts(m.GetTasksHere()), Staged: m.GetStaged(), ManyFiles: m.GetManyFiles(),
		Obstacles: messages.DecodeObstacles(m.GetObstacles()),
	}
	for _, index := range m.GetDevices() {
		r.Devices = append(r.Devices, int(index))
	}
	return r, nil
}

func encodeExchangeArgs(a ExchangeArgs) *rpc.CallRequest {
	m := &rpc.ExchangeCall{Capsule: int32(a.Index), Orders: messages.EncodeOrders(a.Orders)}
	return &rpc.CallRequest{Call: &rpc.CallRequest_Exchange{Exchange: m}}
}

func decodeExchangeArgs(req *rpc.CallRequest) (ExchangeArgs, error) {
	m := req.GetExchange()
	orders := messages.DecodeOrders(m.GetOrders())
	if orders == nil {
		return ExchangeArgs{}, ErrUnknown
	}
	return ExchangeArgs{int(m.GetCapsule()), orders}, nil
}

func encodeExchangeReply(r ExchangeReply) (*rpc.CallReply, error) {
	m := &rpc.ExchangeReply{Forgotten: r.Forgotten, Busy: r.Busy, Error: r.Error, Events: messages.EncodeEvents(r.Events)}
	return &rpc.CallReply{Reply: &rpc.CallReply_Exchange{Exchange: m}}, nil
}

func decodeExchangeReply(reply *rpc.CallReply) (ExchangeReply, error) {
	m := reply.GetExchange()
	return ExchangeReply{
		Forgotten: m.GetForgotten(), Busy: m.GetBusy(), Error: m.GetError(), Events: messages.DecodeEvents(m.GetEvents()),
	}, nil
}

func encodeDrainArgs(a DrainArgs) *rpc.CallRequest {
	return &rpc.CallRequest{Call: &rpc.CallRequest_Drain{Drain: &rpc.DrainCall{Sruns: a.Sruns}}}
}

func decodeDrainArgs(req *rpc.CallRequest) (DrainArgs, error) {
	return DrainArgs{req.GetDrain().GetSruns()}, nil
}

func encodeDumpArgs(a DumpArgs) *rpc.CallRequest {
	m := &rpc.DumpCall{Ticket: string(a.Ticket), Steps: a.Steps, Cut: a.Cut, Base: a.Base}
	return &rpc.CallRequest{Call: &rpc.CallRequest_Dump{Dump: m}}
}

func decodeDumpArgs(req *rpc.CallRequest) (DumpArgs, error) {
	m := req.GetDump()
	return DumpArgs{store.Ticket(m.GetTicket()), m.GetSteps(), m.GetCut(), m.GetBase()}, nil
}

func encodeDumpReply(r DumpReply) (*rpc.CallReply, error) {
	m := &rpc.DumpReply{StageFull: r.StageFull, BaseUnusable: r.BaseUnusable, BaseUnused: r.BaseUnused}
	var err error
	if m.Part, err = encodePart(r.Part); err == nil {
		m.Capsules, err = json.Marshal(r.Capsules)
	}
	return &rpc.CallReply{Reply: &rpc.CallReply_Dump{Dump: m}}, err
}

func decodeDumpReply(reply *rpc.CallReply) (DumpReply, error) {
	m := reply.GetDump()
	r := DumpReply{StageFull: m.GetStageFull(), BaseUnusable: m.GetBaseUnusable(), BaseUnused: m.GetBaseUnused()}
	if err := decodeManifestJSON(m.GetPart(), &r.Part); err != nil {
		return r, err
	}
	return r, decodeManifestJSON(m.GetCapsules(), &r.Capsules)
}

func encodeMakeCapsulesArgs(a MakeCapsulesArgs) *rpc.CallRequest {
	m := &rpc.MakeCapsulesCall{Number: a.Number, Run: int32(a.Run), Nodes: a.Nodes}
	return &rpc.CallRequest{Call: &rpc.CallRequest_MakeCapsules{MakeCapsules: m}}
}

func decodeMakeCapsulesArgs(req *rpc.CallRequest) (MakeCapsulesArgs, error) {
	m := req.GetMakeCapsules()
	return MakeCapsulesArgs{m.GetNumber(), int(m.GetRun()), m.GetNodes()}, nil
}

func encodeUnrestored(programs []string) (*rpc.CallReply, error) {
	return &rpc.CallReply{Reply: &rpc.CallReply_Unrestored{Unrestored: &rpc.UnrestoredReply{Programs: programs}}}, nil
}

func decodeUnrestored(m *rpc.CallReply) ([]string, error) {
	return m.GetUnrestored().GetPrograms(), nil
}

func encodeReconnectDevicesArgs(a ReconnectDevicesArgs) *rpc.CallRequest {
	m := &rpc.ReconnectDevicesCall{Connect: a.Peers != nil, Peers: encodeAddresses(a.Peers)}
	return &rpc.CallRequest{Call: &rpc.CallRequest_ReconnectDevices{ReconnectDevices: m}}
}

func decodeReconnectDevicesArgs(req *rpc.CallRequest) (ReconnectDevicesArgs, error) {
	if m := req.GetReconnectDevices(); m.GetConnect() {
		return ReconnectDevicesArgs{Peers: decodeAddresses(m.GetPeers())}, nil
	}
	return ReconnectDevicesArgs{}, nil
}

func encodeAddressesReply(addresses map[int]string) (*rpc.CallReply, error) {
	m := &rpc.ReconnectDevicesReply{Addresses: encodeAddresses(addresses)}
	return &rpc.CallReply{Reply: &rpc.CallReply_ReconnectDevices{ReconnectDevices: m}}, nil
}

func decodeAddressesReply(m *rpc.CallReply) (map[int]string, error) {
	return decodeAddresses(m.GetReconnectDevices().GetAddresses()), nil
}

func encodeUploadShareArgs(a UploadShareArgs) *rpc.CallRequest {
	return &rpc.CallRequest{Call: &rpc.CallRequest_UploadShare{UploadShare: &rpc.UploadShareCall{Ticket: string(a.Ticket)}}}
}

func decodeUploadShareArgs(req *rpc.CallRequest) (UploadShareArgs, error) {
	return UploadShareArgs{store.Ticket(req.GetUploadShare().GetTicket())}, nil
}

func encodeShareReply(r upload.ShareReply) (*rpc.CallReply, error) {
	part, err := encodePart(r.Part)
	return &rpc.CallReply{Reply: &rpc.CallReply_UploadShare{UploadShare: &rpc.UploadShareReply{Lost: r.Lost, Part: part}}}, err
}

func decodeShareReply(m *rpc.CallReply) (upload.ShareReply, error) {
	r := upload.ShareReply{Lost: m.GetUploadShare().GetLost()}
	return r, decodeManifestJSON(m.GetUploadShare().GetPart(), &r.Part)
}

func encodeShareStatus(r upload.ShareStatus) (*rpc.CallReply, error) {
	m := &rpc.ShareStatusReply{Has: r.Has, Done: r.Done, Total: r.Total, LastError: r.LastError}
	return &rpc.CallReply{Reply: &rpc.CallReply_ShareStatus{ShareStatus: m}}, nil
}

func decodeShareStatus(reply *rpc.CallReply) (upload.ShareStatus, error) {
	m := reply.GetShareStatus()
	return upload.ShareStatus{Has: m.GetHas(), Done: m.GetDone(), Total: m.GetTotal(), LastError: m.GetLastError()}, nil
}

func encodeRequester(r runs.Requester) *rpc.Requester {
	return &rpc.Requester{Node: r.Node, Capsule: int32(r.Capsule), Program: r.Program, At: timestamppb.New(r.At)}
}

func decodeRequester(m *rpc.Requester) runs.Requester {
	return runs.Requester{Node: m.GetNode(), Capsule: int(m.GetCapsule()), Program: m.GetProgram(), At: m.GetAt().AsTime()}
}

func encodeAsksRequeueArgs(r runs.Requester) *rpc.CallRequest {
	return &rpc.CallRequest{Call: &rpc.CallRequest_AsksRequeue{AsksRequeue: &rpc.AsksRequeueCall{Requester: encodeRequester(r)}}}
}

func decodeAsksRequeueArgs(req *rpc.CallRequest) (runs.Requester, error) {
	return decodeRequester(req.GetAsksRequeue().GetRequester()), nil
}

func encodeProgramRunsArgs(r runs.Requester) *rpc.CallRequest {
	return &rpc.CallRequest{Call: &rpc.CallRequest_ProgramRuns{ProgramRuns: &rpc.ProgramRunsCall{Requester: encodeRequester(r)}}}
}

func decodeProgramRunsArgs(req *rpc.CallRequest) (runs.Requester, error) {
	return decodeRequester(req.GetProgramRuns().GetRequester()), nil
}

func encodeProgramRunsReply(stillRuns bool) (*rpc.CallReply, error) {
	return &rpc.CallReply{Reply: &rpc.CallReply_ProgramRuns{ProgramRuns: &rpc.ProgramRunsReply{Runs: stillRuns}}}, nil
}

func decodeProgramRunsReply(m *rpc.CallReply) (bool, error) { return m.GetProgramRuns().GetRuns(), nil }

func encodeViews(views []CapsuleView) (*rpc.CallReply, error) {
	m := &rpc.ViewReply{}
	for _, v := range views {
		m.Capsules = append(m.Capsules, &rpc.CapsuleView{
			Capsule: v.Capsule, Obstacles: messages.EncodeObstacles(v.Obstacles), Outside: messages.EncodeObstacles(v.Outside),
		})
	}
	return &rpc.CallReply{Reply: &rpc.CallReply_View{View: m}}, nil
}

func decodeViews(m *rpc.CallReply) (views []CapsuleView, _ error) {
	for _, v := range m.GetView().GetCapsules() {
		views = append(views, CapsuleView{
			Capsule: v.GetCapsule(), Obstacles: messages.DecodeObstacles(v.GetObstacles()), Outside: messages.DecodeObstacles(v.GetOutside()),
		})
	}
	return views, nil
}

func encodeCheckpointRequest(r decisions.Request) *rpc.CallRequest {
	return &rpc.CallRequest{Call: &rpc.CallRequest_RequestCheckpoint{RequestCheckpoint: &rpc.RequestCheckpointCall{
		After: rpc.RequestCheckpointCall_After(r.After), Reason: r.Reason, HoldAfterwards: r.HoldAfterwards,
	}}}
}

func decodeCheckpointRequest(req *rpc.CallRequest) (decisions.Request, error) {
	m := req.GetRequestCheckpoint()
	if _, known := rpc.RequestCheckpointCall_After_name[int32(m.GetAfter())]; !known {
		return decisions.Request{}, ErrUnknown
	}
	return decisions.Request{After: decisions.Departure(m.GetAfter()), Reason: m.GetReason(), HoldAfterwards: m.GetHoldAfterwards()}, nil
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
