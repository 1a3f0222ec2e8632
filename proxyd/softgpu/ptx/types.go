// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

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

var typeNames = func() map[string]Type {
	m := make(map[string]Type)
	for t := B8; t <= Pred; t++ {
		m[typeTable[t].name] = t
	}
	return m
}()

func (t Type) String() string { return typeTable[t].name }

// Size is the number of bytes that a value takes in memory.
func (t Type) Size() uint32 { return typeTable[t].size }

func (t Type) isSigned() bool   { return typeTable[t].kind == signedKind }
func (t Type) isFloat() bool    { return typeTable[t].kind == floatKind }
func (t Type) isIntegral() bool { return typeTable[t].kind <= signedKind }

// class is the register file that holds values of a type.
type class uint8

const (
	class32 class = iota
	class64
	classPred
	class128
)

func (t Type) classOf() class {
	switch {
	case t == Pred:
		return classPred
	case t == B128:
		return class128
	case t.Size() == 8:
		return class64
	default:
		return class32
	}
}

// Space is a state space of PTX.
type Space uint8

// The state spaces. Generic is that of accesses which name none.
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

var spaceNames = map[string]Space{
	"reg": RegSpace, "sreg": SRegSpace, "const": ConstSpace, "global": GlobalSpace, "local": LocalSpace,
	"param": ParamSpace, "shared": SharedSpace, "tex": TexSpace,
	"param::entry": ParamSpace, "param::func": ParamSpace, "shared::cta": SharedSpace,
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

// Dim3 is an extent or a position in a grid or a block.
type Dim3 struct{ X, Y, Z uint32 }

// Count is the number of positions within the extent.
func (d Dim3) Count() uint64 { return uint64(d.X) * uint64(d.Y) * uint64(d.Z) }

// positionAt returns the position with the given index, x running fastest.
func (d Dim3) positionAt(i uint64) Dim3 {
	return Dim3{X: uint32(i % uint64(d.X)), Y: uint32(i / uint64(d.X) % uint64(d.Y)), Z: uint32(i / uint64(d.X) / uint64(d.Y))}
}
