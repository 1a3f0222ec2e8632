// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/runs"

	"google.golang.org/protobuf/proto"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/decisions"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/processes"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/upload"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/cut"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// sent returns a message as it is after its way over the network.
func sent[M proto.Message](t *testing.T, m, arrived M) M {
	t.Helper()
	b, err := proto.Marshal(m)
	noError(t, err)
	noError(t, proto.Unmarshal(b, arrived))
	return arrived
}

// TestCallMessages: every call that a node carries out has a message, with which name and arguments arrive.
func TestCallMessages(t *testing.T) {
	asked := runs.Requester{Node: "n1", Capsule: 2, Program: "s0-1.0", At: time.Unix(5, 7).UTC()}
	arguments := map[string][]any{
		phasePrepare:         {prepareRequest{true, 3, true}, prepareRequest{}},
		callExchange:         {exchangeRequest{2, &cut.Orders{Attempt: 7, Lease: time.Second, Do: []cut.Order{{Open: true}}}}},
		phaseDrain:           {drainRequest{}, drainRequest{true}},
		phaseDump:            {dumpRequest{"ticket", []string{"s0-1"}, 7, 3}, dumpRequest{}},
		callMakeCapsules:     {makeCapsulesRequest{3, 2, []string{"n1", "n2"}}},
		callReconnectDevices: {reconnectRequest{}, reconnectRequest{map[int]string{}}, reconnectRequest{map[int]string{0: "a", 3: ""}}},
		callUpload:           {uploadRequest{"ticket"}},
		callAsksRequeue:      {asked},
		callProgramRuns:      {asked},
		callRequestCheckpoint: {
			decisions.Request{After: decisions.ForwardSignal, Reason: "periodic", HoldAfterwards: true}, decisions.Request{After: decisions.Requeued},
			decisions.Request{After: decisions.Preempted}, decisions.Request{After: decisions.TimeLimit},
		},
	}
	for call := range emptyCalls {
		arguments[call] = []any{empty{}}
	}
	for call, all := range arguments {
		for _, args := range all {
			req, err := encodeCall(call, args)
			noError(t, err)
			gotCall, got, err := decodeCall(sent(t, req, &rpc.CallRequest{}))
			if err != nil || gotCall != call || !reflect.DeepEqual(got, args) {
				t.Errorf("call %s with %+v arrives as %s with %+v, error %v", call, args, gotCall, got, err)
			}
		}
	}
	for call := range jobHandlers {
		if arguments[call] == nil {
			t.Errorf("call %s has no message", call)
		}
	}
	for call := range nodeHandlers {
		if arguments[call] == nil {
			t.Errorf("call %s has no message", call)
		}
	}
}

// TestUnknownCalls: a call that this release does not know is refused by a name that people can act on.
func TestUnknownCalls(t *testing.T) {
	for _, req := range []*rpc.CallRequest{{}, {Call: &rpc.CallRequest_Exchange{Exchange: &rpc.ExchangeCall{}}}, {Call: &rpc.CallRequest_RequestCheckpoint{RequestCheckpoint: &rpc.RequestCheckpointCall{After: 9}}}} {
		if _, _, err := decodeCall(req); !errors.Is(err, errUnknownCall) {
			t.Errorf("%v: %v", req, err)
		}
	}
	if _, err := encodeCall(phaseDump, "text"); err == nil {
		t.Error("arguments without a message are sent")
	}
	if _, err := encodeReply(3); err == nil {
		t.Error("a reply without a message is sent")
	}
	if err := decodeReply(&rpc.CallReply{}, new(int)); err == nil {
		t.Error("a reply is read into a value without a message")
	}
}

// sameReply compares replies. Messages in them are equal if their fields are.
func sameReply(got, want any) bool {
	a, isView := got.([]CapsuleView)
	b, ok := want.([]CapsuleView)
	if !isView || !ok {
		return reflect.DeepEqual(got, want)
	}
	return slices.EqualFunc(a, b, func(a, b CapsuleView) bool {
		return proto.Equal(a.Capsule, b.Capsule) && reflect.DeepEqual(a.Obstacles, b.Obstacles) && reflect.DeepEqual(a.Outside, b.Outside)
	})
}

// TestReplyMessages: replies arrive whole, and an empty message is the zero reply.
func TestReplyMessages(t *testing.T) {
	part := &store.Part{}
	for _, reply := range []any{
		prepareReply{
			Capsules: 1, Programs: 2, Bytes: 1 << 40, Obstacles: []processes.Obstacle{{Program: "batch", PID: 7, Name: "ssh", What: "has a terminal", Cure: "close it"}},
			Unrestored: []string{"batch"}, Steps: []string{"s0-1"}, TaskCounts: map[string]int{"s0-1": 4}, TasksHere: map[string]int{"s0-1": 2}, Devices: []int{0, 1}, Staged: true,
		},
		exchangeReply{Events: &cut.Events{Next: 5}},
		exchangeReply{Forgotten: true, Error: "why"},
		dumpReply{Part: part, Capsules: []records.CapsuleMeta{{Index: 1, Node: "n1"}}, BaseUnused: true},
		dumpReply{Capsules: []records.CapsuleMeta{{Index: 1}}, StageFull: true, BaseUnusable: true},
		[]string{"batch", "s0-1.0"},
		map[int]string{0: "a", 1: ""},
		upload.ShareReply{Part: part},
		upload.ShareReply{Lost: "why"},
		upload.ShareStatus{Has: true, Done: 3, Total: 5, LastError: "why"},
		true,
		[]CapsuleView{{
			Capsule:   &rpc.Capsule{Index: 1, Node: "n1", Programs: []*rpc.Program{{Name: "batch"}}, Leases: []*rpc.Lease{{Job: 9, Gpus: 2}}},
			Obstacles: []processes.Obstacle{{Program: "batch", PID: 7}}, Outside: []processes.Obstacle{{Program: "s0-1.0", What: "is connected"}},
		}},
	} {
		m, err := encodeReply(reply)
		noError(t, err)
		into := reflect.New(reflect.TypeOf(reply))
		noError(t, decodeReply(sent(t, m, &rpc.CallReply{}), into.Interface()))
		if got := into.Elem().Interface(); !sameReply(got, reply) {
			t.Errorf("%+v arrives as %+v", reply, got)
		}
		noError(t, decodeReply(&rpc.CallReply{}, into.Interface()))
	}
}
