// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package calls

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/decisions"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/processes"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/runs"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/upload"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/cut"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sendMessage returns a message after its way over the network.
func sendMessage[M proto.Message](t *testing.T, m, arrived M) M {
	t.Helper()
	b, err := proto.Marshal(m)
	noError(t, err)
	noError(t, proto.Unmarshal(b, arrived))
	return arrived
}

// TestCallMessages: every call has a message, with which its name and arguments arrive.
func TestCallMessages(t *testing.T) {
	asked := runs.Requester{Node: "n1", Capsule: 2, Program: "s0-1.0", At: time.Unix(5, 7).UTC()}
	arguments := map[string][]any{
		PhasePrepare:     {PrepareArgs{true, 3, true}, PrepareArgs{}},
		Exchange:         {ExchangeArgs{2, &cut.Orders{Attempt: 7, LeaderTimeout: time.Second, Do: []cut.Order{{Open: true}}}}},
		PhaseDrain:       {DrainArgs{}, DrainArgs{true}},
		PhaseDump:        {DumpArgs{"ticket", []string{"s0-1"}, 7, 3}, DumpArgs{}},
		MakeCapsules:     {MakeCapsulesArgs{3, 2, []string{"n1", "n2"}}},
		ReconnectDevices: {ReconnectDevicesArgs{}, ReconnectDevicesArgs{map[int]string{}}, ReconnectDevicesArgs{map[int]string{0: "a", 3: ""}}},
		UploadShare:      {UploadShareArgs{"ticket"}},
		AsksRequeue:      {asked},
		ProgramRuns:      {asked},
		RequestCheckpoint: {
			decisions.Request{After: decisions.RunOn, Reason: "periodic", HoldAfterwards: true}, decisions.Request{After: decisions.Requeued},
			decisions.Request{After: decisions.Preempted}, decisions.Request{After: decisions.TimeLimit},
		},
	}
	for call := range emptyCalls {
		arguments[call] = []any{Empty{}}
	}
	for call, all := range arguments {
		for _, args := range all {
			req, err := EncodeCall(call, args)
			noError(t, err)
			gotCall, got, err := DecodeCall(sendMessage(t, req, &rpc.CallRequest{}))
			if err != nil || gotCall != call || !reflect.DeepEqual(got, args) {
				t.Errorf("call %s with %+v arrives as %s with %+v, error %v", call, args, gotCall, got, err)
			}
		}
	}
	for _, call := range All() {
		if arguments[call] == nil {
			t.Errorf("EncodeCall knows no call %s: see emptyCalls, or add arguments to this test", call)
		}
	}
	messages := (&rpc.CallRequest{}).ProtoReflect().Descriptor().Oneofs().ByName("call").Fields()
	for _, call := range All() {
		if messages.ByName(protoreflect.Name(call)) == nil {
			t.Errorf("no message of proxyd.proto has the name of call %s", call)
		}
	}
	if len(All()) != len(arguments) || len(All()) != messages.Len() {
		t.Errorf("%d calls have names, %d were sent, and %d have messages", len(All()), len(arguments), messages.Len())
	}
}

// TestUnknownCalls: a call that this release does not know is refused by a name that people can act on.
func TestUnknownCalls(t *testing.T) {
	for _, req := range []*rpc.CallRequest{{}, {Call: &rpc.CallRequest_Exchange{Exchange: &rpc.ExchangeCall{}}}, {Call: &rpc.CallRequest_RequestCheckpoint{RequestCheckpoint: &rpc.RequestCheckpointCall{After: 9}}}} {
		if _, _, err := DecodeCall(req); !errors.Is(err, ErrUnknown) {
			t.Errorf("DecodeCall(%v): %v, want ErrUnknown", req, err)
		}
	}
	if _, err := EncodeCall(PhaseDump, "text"); err == nil {
		t.Error("arguments without a message are sent")
	}
	if _, err := EncodeReply(3); err == nil {
		t.Error("a reply without a message is sent")
	}
	if err := DecodeReply(&rpc.CallReply{}, new(int)); err == nil {
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
	part := &store.NodeStreams{}
	for _, reply := range []any{
		PrepareReply{
			Capsules: 1, Programs: 2, Bytes: 1 << 40, Obstacles: []processes.Obstacle{{Program: "batch", PID: 7, Name: "ssh", What: "has a terminal", Cure: "close it"}},
			Unrestored: []string{"batch"}, Steps: []string{"s0-1"}, TaskCounts: map[string]int{"s0-1": 4}, TasksHere: map[string]int{"s0-1": 2}, Devices: []int{0, 1}, Staged: true, ManyFiles: true,
		},
		ExchangeReply{Events: &cut.Events{Next: 5}},
		ExchangeReply{Forgotten: true, Error: "why"},
		DumpReply{Part: part, Capsules: []records.CapsuleMeta{{Index: 1, Node: "n1"}}, BaseUnused: true},
		DumpReply{Capsules: []records.CapsuleMeta{{Index: 1}}, StageFull: true, BaseUnusable: true},
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
		m, err := EncodeReply(reply)
		noError(t, err)
		into := reflect.New(reflect.TypeOf(reply))
		noError(t, DecodeReply(sendMessage(t, m, &rpc.CallReply{}), into.Interface()))
		if got := into.Elem().Interface(); !sameReply(got, reply) {
			t.Errorf("%+v arrives as %+v", reply, got)
		}
		noError(t, DecodeReply(&rpc.CallReply{}, into.Interface()))
	}
}

// bytesFields returns the fields of a message, and of the messages in its fields, that hold bytes.
func bytesFields(m protoreflect.MessageDescriptor, seen map[protoreflect.FullName]bool) (found []string) {
	if seen[m.FullName()] {
		return nil
	}
	seen[m.FullName()] = true
	for i := range m.Fields().Len() {
		switch f := m.Fields().Get(i); {
		case f.Kind() == protoreflect.BytesKind:
			found = append(found, string(m.Name()+"."+f.Name()))
		case f.Message() != nil:
			found = append(found, bytesFields(f.Message(), seen)...)
		}
	}
	return found
}

// TestTypedCalls: messages between nodes have typed fields in proxyd.proto; only parts of a manifest are sent as bytes.
// docs/decisions/19-manifest-parts-as-stored.md gives the reason for this exception.
func TestTypedCalls(t *testing.T) {
	if found := bytesFields((&rpc.CallRequest{}).ProtoReflect().Descriptor(), map[protoreflect.FullName]bool{}); found != nil {
		t.Errorf("calls have bytes in %v: give what is in them fields of its own", found)
	}
	found := bytesFields((&rpc.CallReply{}).ProtoReflect().Descriptor(), map[protoreflect.FullName]bool{})
	if want := []string{"DumpReply.part", "DumpReply.capsules", "UploadShareReply.part"}; !slices.Equal(found, want) {
		t.Errorf("replies have bytes in %v, and only %v are parts of a manifest", found, want)
	}
}

// fillFields sets all fields of v that a manifest has to values other than zero.
func fillFields(t *testing.T, v reflect.Value) {
	t.Helper()
	if at, ok := v.Addr().Interface().(*time.Time); ok {
		*at = time.Unix(5, 7).UTC()
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(3)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(3)
	case reflect.Float64:
		v.SetFloat(3)
	case reflect.String:
		v.SetString("3")
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillFields(t, v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fillFields(t, v.Index(0))
	case reflect.Array:
		for i := range v.Len() {
			fillFields(t, v.Index(i))
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fillFields(t, key)
		fillFields(t, value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Tag.Get("json") != "-" {
				fillFields(t, v.Field(i))
			}
		}
	default:
		t.Fatalf("%s: no value of its kind is known", v.Type())
	}
}

// TestManifestParts: each field of a part of the manifest arrives, in the bytes that the manifest will have.
func TestManifestParts(t *testing.T) {
	var want DumpReply
	fillFields(t, reflect.ValueOf(&want).Elem())
	m, err := EncodeReply(want)
	noError(t, err)
	var got DumpReply
	noError(t, DecodeReply(sendMessage(t, m, &rpc.CallReply{}), &got))
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v arrives as %+v", want, got)
	}
	streams, err := json.Marshal(want.Part.Streams)
	noError(t, err)
	if !bytes.Contains(m.GetDump().GetPart(), streams) {
		t.Errorf("the part is %s, and the manifest has %s", m.GetDump().GetPart(), streams)
	}
	meta, err := (&records.Meta{Capsules: want.Capsules}).Encode()
	noError(t, err)
	if !bytes.Contains(meta, m.GetDump().GetCapsules()) {
		t.Errorf("the capsules are %s, and the manifest has %s", m.GetDump().GetCapsules(), meta)
	}
	// A node of a newer release has fields that this release does not know.
	m.GetDump().Capsules = []byte(`[{"index":1,"node":"n2","newer":{"x":1}}]`)
	got = DumpReply{}
	noError(t, DecodeReply(m, &got))
	if len(got.Capsules) != 1 || got.Capsules[0].Index != 1 || got.Capsules[0].Node != "n2" {
		t.Errorf("capsules of a newer release arrive as %+v", got.Capsules)
	}
}
