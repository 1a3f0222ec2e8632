// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package messages

import (
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/singularity-slurm/singularity-slurm/proxyd/barrier"
	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/gpus"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/processes"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/cut"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// fillFields sets all fields of a value to values that are not zero and differ from each other, so that a field that a
// conversion forgets, or takes for another field, is seen.
func fillFields(t *testing.T, v reflect.Value, next *int) {
	t.Helper()
	*next++
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(*next))
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(*next))
	case reflect.Uint8: // barrier.Kind
		v.SetUint(uint64(barrier.Recv))
	case reflect.String:
		v.SetString(string(rune('a'+*next%26)) + time.Duration(*next).String())
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillFields(t, v.Elem(), next)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fillFields(t, v.Index(i), next)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(int64(*next), 7).UTC()))
			return
		}
		for i := range v.NumField() {
			fillFields(t, v.Field(i), next)
		}
	default:
		t.Fatalf("no value for a field of type %s", v.Type())
	}
}

// filledValue returns a value with all fields set.
func filledValue[T any](t *testing.T) *T {
	t.Helper()
	value, next := new(T), 0
	fillFields(t, reflect.ValueOf(value).Elem(), &next)
	return value
}

// sendMessage returns a message after its way over the network.
func sendMessage[M proto.Message](t *testing.T, m, arrived M) M {
	t.Helper()
	b, err := proto.Marshal(m)
	if err == nil {
		err = proto.Unmarshal(b, arrived)
	}
	if err != nil {
		t.Fatal(err)
	}
	return arrived
}

// TestCutMessages: orders and events arrive as they were sent, with all fields set, and with no field set.
func TestCutMessages(t *testing.T) {
	for _, orders := range []*cut.Orders{{}, {Do: []cut.Order{{}}}, filledValue[cut.Orders](t)} {
		if got := DecodeOrders(sendMessage(t, EncodeOrders(orders), &rpc.CutOrders{})); !reflect.DeepEqual(got, orders) {
			t.Errorf("%+v arrives as %+v", orders, got)
		}
	}
	for _, events := range []*cut.Events{{}, {List: []cut.Event{{}}}, filledValue[cut.Events](t)} {
		if got := DecodeEvents(sendMessage(t, EncodeEvents(events), &rpc.CutEvents{})); !reflect.DeepEqual(got, events) {
			t.Errorf("%+v arrives as %+v", events, got)
		}
	}
	if EncodeOrders(nil) != nil || DecodeOrders(nil) != nil || EncodeEvents(nil) != nil || DecodeEvents(nil) != nil {
		t.Error("a nil message arrives as a value")
	}
	for _, kind := range []barrier.Kind{barrier.Collective, barrier.Send, barrier.Recv} {
		if _, known := rpc.CutCount_Kind_name[int32(kind)]; !known {
			t.Errorf("kind %d has no number in the message", kind)
		}
	}
}

// TestObstacleMessages: obstacles arrive as they were sent.
func TestObstacleMessages(t *testing.T) {
	for _, obstacles := range [][]processes.Obstacle{nil, {{}}, *filledValue[[]processes.Obstacle](t)} {
		if got := DecodeObstacles(EncodeObstacles(obstacles)); !reflect.DeepEqual(got, obstacles) {
			t.Errorf("%+v arrives as %+v", obstacles, got)
		}
	}
	got := DecodeObstacles(EncodeObstacles([]processes.Obstacle{{Name: "a\xff", What: "has /b\xfe open"}}))
	if want := (processes.Obstacle{Name: "a?", What: "has /b? open"}); len(got) != 1 || got[0] != want {
		t.Errorf("names that are not UTF-8 arrive as %+v, want %+v", got, want)
	}
}

// TestProgramStates: a program is described by the state that says most.
func TestProgramStates(t *testing.T) {
	since := time.Unix(1, 2)
	for _, tt := range []struct {
		program capsule.Program
		want    string
	}{
		{capsule.Program{}, "running"},
		{capsule.Program{Frozen: true}, "frozen"},
		{capsule.Program{Captured: true, Frozen: true}, "captured"},
		{capsule.Program{Waiting: true, Captured: true}, "waits to be restored"},
		{capsule.Program{Ended: true, Captured: true}, "ended"},
	} {
		tt.program.Name, tt.program.First, tt.program.Status = "batch", 7, 9
		m := EncodeProgram(&tt.program, 4096, since, "sh")
		want := &rpc.Program{Name: "batch", Pid: 7, Status: 9, State: tt.want, Rss: 4096, Started: encodeTime(since), Command: "sh"}
		if !proto.Equal(m, want) {
			t.Errorf("%+v is described as %v, want %v", tt.program, m, want)
		}
	}
	if m := EncodeProgram(&capsule.Program{}, 0, time.Time{}, ""); m.GetStarted() != nil {
		t.Errorf("a program with a start that is not known: %v", m)
	}
}

// TestDeviceMessages: all fields of the message of devices are set.
func TestDeviceMessages(t *testing.T) {
	m := EncodeDevices(filledValue[server.Status](t), "7.1.0")
	if len(m.GetDevices()) != 2 || len(m.GetSharing()) != 2 || len(m.GetProcesses()) != 2 {
		t.Fatalf("devices %v", m)
	}
	for _, part := range []proto.Message{m, m.GetDevices()[0], m.GetSharing()[0], m.GetProcesses()[0]} {
		fields := part.ProtoReflect().Descriptor().Fields()
		for i := range fields.Len() {
			if !part.ProtoReflect().Has(fields.Get(i)) {
				t.Errorf("%s is not set", fields.Get(i).FullName())
			}
		}
	}
	leases := EncodeLeases([]gpus.Lease{{Job: 9, GPUs: []int{3, 5}, At: []int{1, 2}}})
	if len(leases) != 1 || !proto.Equal(leases[0], &rpc.Lease{Job: 9, Gpus: 2}) {
		t.Errorf("EncodeLeases = %v, want one lease of 2 GPUs", leases)
	}
}
