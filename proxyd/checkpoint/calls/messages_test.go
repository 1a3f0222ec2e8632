// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package calls

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"strings"
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

// sendMessages sends a call with each of the arguments, and each of the replies, and compares what arrives. The name of
// the call is added to sent.
func sendMessages[Args, Reply any](t *testing.T, sent map[string]bool, call Call[Args, Reply], args []Args, replies []Reply) {
	t.Helper()
	sent[call.Name()] = true
	for _, want := range args {
		req := sendMessage(t, call.EncodeArgs(want), &rpc.CallRequest{})
		got, err := call.DecodeArgs(req)
		if name := NameOf(req); err != nil || name != call.Name() || !reflect.DeepEqual(got, want) {
			t.Errorf("call %s with %+v arrives as %s with %+v, error %v", call.Name(), want, name, got, err)
		}
	}
	for _, want := range replies {
		m, err := call.EncodeReply(want)
		noError(t, err)
		got, err := call.DecodeReply(sendMessage(t, m, &rpc.CallReply{}))
		if err != nil || !sameReply(got, want) {
			t.Errorf("reply %+v to call %s arrives as %+v, error %v", want, call.Name(), got, err)
		}
	}
	_, err := call.DecodeReply(&rpc.CallReply{})
	noError(t, err)
}

// sendEmptyMessages is sendMessages for calls without arguments, with a reply without content.
func sendEmptyMessages(t *testing.T, sent map[string]bool, all ...Call[Empty, Empty]) {
	t.Helper()
	for _, call := range all {
		sendMessages(t, sent, call, []Empty{{}}, []Empty{{}})
	}
}

// TestCallMessages: every call has a message, with which its name and arguments arrive. Replies arrive whole, and an
// empty message is the zero reply.
func TestCallMessages(t *testing.T) {
	sent := map[string]bool{}
	sendEmptyMessages(t, sent, Freeze, Halt, Heartbeat, Resume, Release, NodeRestored, Unlock, DropShare, AwaitDecision)
	part := &store.NodeStreams{}
	sendMessages(t, sent, Prepare, []PrepareArgs{{true, 3, true}, {}}, []PrepareReply{{
		Capsules: 1, Programs: 2, Bytes: 1 << 40, Obstacles: []processes.Obstacle{{Program: "batch", PID: 7, Name: "ssh", What: "has a terminal", Cure: "close it"}},
		Unrestored: []string{"batch"}, Steps: []string{"s0-1"}, TaskCounts: map[string]int{"s0-1": 4}, TasksHere: map[string]int{"s0-1": 2}, Devices: []int{0, 1}, Staged: true, ManyFiles: true,
	}})
	sendMessages(
		t, sent, Exchange,
		[]ExchangeArgs{{2, &cut.Orders{Attempt: 7, LeaderTimeout: time.Second, Do: []cut.Order{{Open: true}}}}},
		[]ExchangeReply{{Events: &cut.Events{Next: 5}}, {Forgotten: true, Error: "why"}, {Busy: true}},
	)
	sendMessages(t, sent, Drain, []DrainArgs{{}, {true}}, []Empty{{}})
	sendMessages(t, sent, Dump, []DumpArgs{{"ticket", []string{"s0-1"}, 7, 3}, {}}, []DumpReply{
		{Part: part, Capsules: []records.CapsuleMeta{{Index: 1, Node: "n1"}}, BaseUnused: true},
		{Capsules: []records.CapsuleMeta{{Index: 1}}, StageFull: true, BaseUnusable: true},
	})
	sendMessages(t, sent, MakeCapsules, []MakeCapsulesArgs{{3, 2, []string{"n1", "n2"}}}, []Empty{{}})
	sendMessages(t, sent, Unrestored, []Empty{{}}, [][]string{{"batch", "s0-1.0"}})
	sendMessages(
		t, sent, ReconnectDevices,
		[]ReconnectDevicesArgs{{}, {map[int]string{}}, {map[int]string{0: "a", 3: ""}}}, []map[int]string{{0: "a", 1: ""}},
	)
	sendMessages(t, sent, UploadShare, []UploadShareArgs{{"ticket"}}, []upload.ShareReply{{Part: part}, {Lost: "why"}})
	sendMessages(t, sent, ShareStatus, []Empty{{}}, []upload.ShareStatus{{Has: true, Done: 3, Total: 5, LastError: "why"}})
	asked := []runs.Requester{{Node: "n1", Capsule: 2, Program: "s0-1.0", At: time.Unix(5, 7).UTC()}}
	sendMessages(t, sent, AsksRequeue, asked, []Empty{{}})
	sendMessages(t, sent, ProgramRuns, asked, []bool{true, false})
	sendMessages(t, sent, View, []Empty{{}}, [][]CapsuleView{{{
		Capsule:   &rpc.Capsule{Index: 1, Node: "n1", Programs: []*rpc.Program{{Name: "batch"}}, Leases: []*rpc.Lease{{Job: 9, Gpus: 2}}},
		Obstacles: []processes.Obstacle{{Program: "batch", PID: 7}}, Outside: []processes.Obstacle{{Program: "s0-1.0", What: "is connected"}},
	}}})
	sendMessages(t, sent, RequestCheckpoint, []decisions.Request{
		{After: decisions.StaysOnNodes, Reason: "periodic", HoldAfterwards: true}, {After: decisions.LeavesForRequeue},
		{After: decisions.LeavesForPreemption}, {After: decisions.LeavesAtTimeLimit},
	}, []Empty{{}})

	fields := callMessages.Fields()
	for i := range fields.Len() {
		if name := string(fields.Get(i).Name()); !sent[name] {
			t.Errorf("proxyd.proto has a message of call %s, which this test does not send", name)
		}
	}
	if len(sent) != fields.Len() {
		t.Errorf("%d calls were sent, and proxyd.proto has messages of %d", len(sent), fields.Len())
	}
}

// TestUnknownCalls: a call that this release does not know is refused by a name that people can act on.
func TestUnknownCalls(t *testing.T) {
	if name := NameOf(&rpc.CallRequest{}); name != "" {
		t.Errorf("an empty message makes the call %q", name)
	}
	if _, err := Exchange.DecodeArgs(&rpc.CallRequest{}); !errors.Is(err, ErrUnknown) {
		t.Errorf("orders that are not known here: %v, want ErrUnknown", err)
	}
	req := &rpc.CallRequest{Call: &rpc.CallRequest_RequestCheckpoint{RequestCheckpoint: &rpc.RequestCheckpointCall{After: 9}}}
	if _, err := RequestCheckpoint.DecodeArgs(req); !errors.Is(err, ErrUnknown) {
		t.Errorf("a verdict that is not known here: %v, want ErrUnknown", err)
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

// TestLoggedCalls: the log names a call, without the call's functions.
func TestLoggedCalls(t *testing.T) {
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("step begins", "step", Release)
	if got := log.String(); !strings.HasSuffix(got, ` msg="step begins" step=release`+"\n") {
		t.Errorf("the log has %q, without step=release at the end", got)
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
	m, err := Dump.EncodeReply(want)
	noError(t, err)
	got, err := Dump.DecodeReply(sendMessage(t, m, &rpc.CallReply{}))
	noError(t, err)
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
	got, err = Dump.DecodeReply(m)
	noError(t, err)
	if len(got.Capsules) != 1 || got.Capsules[0].Index != 1 || got.Capsules[0].Node != "n2" {
		t.Errorf("capsules of a newer release arrive as %+v", got.Capsules)
	}
}
