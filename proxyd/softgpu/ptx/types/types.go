// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package types has the fundamental types, the register classes and the state spaces of PTX.
package types

import "math"

// Type is a fundamental type of PTX.
type Type uint8

// The types. Packed types have the width of the pack.
const (
	NoType Type = iota
	B8
	B16
	B32
	B64
	B128
	U8
	U16
	U32
	U64
	S8
	S16
	S32
	S64
	F16
	F16x2
	BF16
	BF16x2
	TF32
	F32
	F64
	E4M3x2
	E5M2x2
	U16x2
	S16x2
	Pred
)

// kind is the nature of a type's values.
type kind uint8

const (
	bitsKind kind = iota
	unsignedKind
	signedKind
	floatKind
	predKind
)

type typeInfo struct {
	name string
	size uint32
	kind kind
}

var typeTable = [...]typeInfo{
	NoType: {"none", 0, bitsKind},
	B8:     {"b8", 1, bitsKind}, B16: {"b16", 2, bitsKind}, B32: {"b32", 4, bitsKind},
	B64: {"b64", 8, bitsKind}, B128: {"b128", 16, bitsKind},
	U8: {"u8", 1, unsignedKind}, U16: {"u16", 2, unsignedKind}, U32: {"u32", 4, unsignedKind}, U64: {"u64", 8, unsignedKind},
	S8: {"s8", 1, signedKind}, S16: {"s16", 2, signedKind}, S32: {"s32", 4, signedKind}, S64: {"s64", 8, signedKind},
	F16: {"f16", 2, floatKind}, F16x2: {"f16x2", 4, floatKind}, BF16: {"bf16", 2, floatKind}, BF16x2: {"bf16x2", 4, floatKind},
	TF32: {"tf32", 4, floatKind}, F32: {"f32", 4, floatKind}, F64: {"f64", 8, floatKind},
	E4M3x2: {"e4m3x2", 2, floatKind}, E5M2x2: {"e5m2x2", 2, floatKind},
	U16x2: {"u16x2", 4, unsignedKind}, S16x2: {"s16x2", 4, signedKind}, Pred: {"pred", 1, predKind},
}

// ByName has the types by their names in PTX, without the dot.
var ByName = func() map[string]Type {
	m := make(map[string]Type)
	for t := B8; t <= Pred; t++ {
		m[typeTable[t].name] = t
	}
	return m
}()

func (t Type) String() string { return typeTable[t].name }

// Size is the number of bytes that a value takes in memory.
func (t Type) Size() uint32 { return typeTable[t].size }

// IsSigned reports whether values are signed integers.
func (t Type) IsSigned() bool { return typeTable[t].kind == signedKind }

// IsFloat reports whether values are floating-point numbers, or packs of them.
func (t Type) IsFloat() bool { return typeTable[t].kind == floatKind }

// IsIntegral reports whether values are bits or integers.
func (t Type) IsIntegral() bool { return typeTable[t].kind <= signedKind }

// Class is the register file that holds values of a type.
type Class uint8

// The register files.
const (
	Class32 Class = iota
	Class64
	ClassPred
	Class128
)

// Class is the register file that holds values of the type.
func (t Type) Class() Class {
	switch {
	case t == Pred:
		return ClassPred
	case t == B128:
		return Class128
	case t.Size() == 8:
		return Class64
	default:
		return Class32
	}
}

// Space is a state space of PTX.
type Space uint8

// The state spaces. Generic is the space of accesses that name no space.
const (
	Generic Space = iota
	RegSpace
	SRegSpace
	ConstSpace
	GlobalSpace
	LocalSpace
	ParamSpace
	SharedSpace
	TexSpace
)

// SpacesByName has the state spaces by their names in PTX, without the dot.
var SpacesByName = map[string]Space{
	"reg": RegSpace, "sreg": SRegSpace, "const": ConstSpace, "global": GlobalSpace, "local": LocalSpace,
	"param": ParamSpace, "shared": SharedSpace, "tex": TexSpace,
	"param::entry": ParamSpace, "param::func": ParamSpace, "shared::cta": SharedSpace,
	"shared::cluster": SharedSpace, // a cluster has a single block
}

func (s Space) String() string {
	switch s {
	case Generic:
		return "generic"
	case TexSpace:
		return "tex"
	default:
		return [...]string{"", "reg", "sreg", "const", "global", "local", "param", "shared"}[s]
	}
}

// SizeMask has the bits of a value of so many bytes.
func SizeMask(bytes uint32) uint64 {
	if bytes >= 8 {
		return math.MaxUint64
	}
	return 1<<(8*bytes) - 1
}
