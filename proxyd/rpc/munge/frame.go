// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package munge

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"strings"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Names in the metadata. The ending makes gRPC carry bytes.
const (
	credentialKey = "singularity-credential"
	sealKey       = "singularity-seal-bin"
)

// frame is a message as its bytes. gRPC gets messages in this form only, because a digest must be
// of the bytes that travel: protobuf promises no canonical form.
type frame struct{ b []byte }

// piece is the largest part of a request that is sent in one message. A larger message is not read:
// gRPC reads a message to its end before the credential check sees the message.
const piece = 256 << 10

// frameCodec moves frames.
type frameCodec struct{}

var _ encoding.CodecV2 = frameCodec{}

func (frameCodec) Marshal(v any) (mem.BufferSlice, error) {
	f, ok := v.(*frame)
	if !ok {
		return nil, fmt.Errorf("message of type %T did not come through this package", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(f.b)}, nil
}

func (frameCodec) Unmarshal(data mem.BufferSlice, v any) error {
	f, ok := v.(*frame)
	if !ok {
		return fmt.Errorf("message of type %T did not come through this package", v)
	}
	f.b = data.Materialize()
	return nil
}

func (frameCodec) Name() string { return "singularity" }

// marshalMessage and unmarshalMessage are the only places where messages become bytes and back.
func marshalMessage(v any) ([]byte, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is no protobuf message", v)
	}
	return proto.Marshal(m)
}

func unmarshalMessage(b []byte, v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is no protobuf message", v)
	}
	return proto.Unmarshal(b, m)
}

// seal is computed over a reply: every message, in order, then the status. Each part is preceded
// by its kind and length, so that no two replies look alike.
type seal struct{ mac hash.Hash }

func newSeal(key []byte) *seal {
	s := &seal{hmac.New(sha256.New, key)}
	s.addPart('v', []byte("singularity reply 1"))
	return s
}

func (s *seal) addPart(kind byte, b []byte) {
	var head [9]byte
	head[0] = kind
	binary.BigEndian.PutUint64(head[1:], uint64(len(b)))
	s.mac.Write(head[:])
	s.mac.Write(b)
}

func (s *seal) addMessage(b []byte) { s.addPart('m', b) }

// addStatus ends the reply and returns the seal.
func (s *seal) addStatus(st *status.Status) []byte {
	p := st.Proto() // nil for OK
	var code [4]byte
	binary.BigEndian.PutUint32(code[:], uint32(st.Code()))
	s.addPart('c', code[:])
	s.addPart('t', []byte(p.GetMessage()))
	for _, d := range p.GetDetails() {
		s.addPart('u', []byte(d.GetTypeUrl()))
		s.addPart('d', d.GetValue())
	}
	return s.mac.Sum(nil)
}

// maxText bounds the text of a status: headers must stay small.
const maxText = 4 << 10

// plainStatus returns the status as the client will receive it: gRPC replaces bytes that are not
// UTF-8, after which the seal would not fit.
func plainStatus(st *status.Status) *status.Status {
	p := st.Proto()
	if p == nil {
		return st
	}
	if len(p.Message) > maxText {
		p.Message = p.Message[:maxText]
	}
	p.Message = strings.ToValidUTF8(p.Message, "?")
	return status.FromProto(p)
}
