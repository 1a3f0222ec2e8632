// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// printJSON writes a value as indented JSON.
func (a *app) printJSON(v any) {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		panic(err) // maps, strings and numbers only
	}
	_, _ = a.stdout.Write(append(b, '\n')) // as fmt.Fprint: the error of a closed pipe is of no use
}

// printMessage writes a message as JSON.
func (a *app) printMessage(m proto.Message) { a.printJSON(jsonObject(m.ProtoReflect())) }

// jsonObject is a message for encoding/json: all fields, named as in proxyd.proto. Unlike
// protojson, numbers are numbers and bytes do not change from run to run. Times are RFC
// 3339, and null when unset; durations are seconds.
func jsonObject(m protoreflect.Message) any {
	switch v := m.Interface().(type) {
	case *timestamppb.Timestamp:
		if !m.IsValid() {
			return nil
		}
		return v.AsTime().Format(time.RFC3339Nano)
	case *durationpb.Duration:
		if !m.IsValid() {
			return nil
		}
		return v.AsDuration().Seconds()
	}
	o := make(map[string]any)
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if f.ContainingOneof() != nil && !m.Has(f) {
			continue
		}
		o[string(f.Name())] = fieldValue(f, m.Get(f))
	}
	return o
}

func fieldValue(f protoreflect.FieldDescriptor, v protoreflect.Value) any {
	switch {
	case f.IsMap():
		o := make(map[string]any)
		v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
			o[k.String()] = jsonValue(f.MapValue(), v)
			return true
		})
		return o
	case f.IsList():
		list := make([]any, v.List().Len())
		for i := range list {
			list[i] = jsonValue(f, v.List().Get(i))
		}
		return list
	default:
		return jsonValue(f, v)
	}
}

func jsonValue(f protoreflect.FieldDescriptor, v protoreflect.Value) any {
	switch f.Kind() {
	case protoreflect.MessageKind:
		return jsonObject(v.Message())
	case protoreflect.EnumKind:
		e := f.Enum().Values().ByNumber(v.Enum())
		if e == nil {
			return int32(v.Enum())
		}
		return strings.ToLower(string(e.Name()))
	default:
		return v.Interface()
	}
}
