// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package native

import "github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/amd64"

// roundings are the roundings other than to nearest, by their names in PTX. An instruction that has one of them reads no
// memory: its operands are in registers.
var roundings = map[string]amd64.Rounding{"rm": amd64.Down, "rp": amd64.Up, "rz": amd64.ToZero}

// roundedOperation is an arithmetic operation with a rounding: d = a op b, or d = op b, or d += a * b.
type roundedOperation struct {
	name           string
	single, double amd64.Op
	emit           func(e *emitter, o amd64.Op, d, x, y, z amd64.Vec, opts amd64.Options)
	operands       int
}

// roundedOperations are the operations of PTX that have all roundings. x, y and z are the operands, in order.
var roundedOperations = func() []roundedOperation {
	two := func(e *emitter, o amd64.Op, d, x, y, _ amd64.Vec, opts amd64.Options) {
		e.a.Op3(o, d, x, amd64.Register(y), opts)
	}
	return []roundedOperation{
		{"add", amd64.VADDPS, amd64.VADDPD, two, 2},
		{"sub", amd64.VSUBPS, amd64.VSUBPD, two, 2},
		{"mul", amd64.VMULPS, amd64.VMULPD, two, 2},
		{"div", amd64.VDIVPS, amd64.VDIVPD, two, 2},
		{"fma", amd64.VFMADD231PS, amd64.VFMADD231PD, func(e *emitter, o amd64.Op, d, x, y, z amd64.Vec, opts amd64.Options) {
			e.emitOp2(amd64.VMOVDQU64, d, amd64.Register(z))
			e.a.Op3(o, d, x, amd64.Register(y), opts)
		}, 3},
		{"sqrt", amd64.VSQRTPS, amd64.VSQRTPD, func(e *emitter, o amd64.Op, d, x, _, _ amd64.Vec, opts amd64.Options) {
			e.a.Op2(o, d, amd64.Register(x), opts)
		}, 1},
		{"rcp", amd64.VDIVPS, amd64.VDIVPD, func(e *emitter, o amd64.Op, d, x, _, _ amd64.Vec, opts amd64.Options) {
			one := tableOneF32
			if o == amd64.VDIVPD {
				one = tableOneF64
			}
			e.emitOp2(amd64.VMOVDQU64, 3, e.tableSource(one))
			e.a.Op3(o, d, 3, amd64.Register(x), opts)
		}, 1},
	}
}()

func init() {
	for _, o := range roundedOperations {
		for name, round := range roundings {
			o.addRounded(o.name+"."+name, amd64.Options{Round: round})
		}
	}
}

// addRounded adds an operation with a rounding, for all types.
func (o roundedOperation) addRounded(key string, opts amd64.Options) {
	operands := func(in *Inst) []Ref { return []Ref{in.A, in.B, in.C}[:o.operands] }
	addOperation(key+".f32", func(e *emitter, in *Inst) {
		e.eachWordPart(in.D, func(p int, d amd64.Vec) {
			v := [3]amd64.Vec{0, 1, 2}
			for i, r := range operands(in) {
				v[i] = e.wordIn(r, p, v[i])
			}
			o.emit(e, o.single, d, v[0], v[1], v[2], opts)
			e.unifyResult(in, d)
		})
	})
	addOperation(key+".ftz.f32", func(e *emitter, in *Inst) {
		e.eachWordPart(in.D, func(p int, d amd64.Vec) {
			for i, r := range operands(in) {
				e.flushTo(amd64.Vec(i), e.wordPart(r, p))
			}
			o.emit(e, o.single, d, 0, 1, 2, opts)
			e.flushTo(d, amd64.Register(d))
			e.unifyResult(in, d)
		})
	})
	addOperation(key+".f64", func(e *emitter, in *Inst) {
		e.eachLongPart(in.D, func(p int, d amd64.Vec) {
			v := [3]amd64.Vec{0, 1, 2}
			for i, r := range operands(in) {
				v[i] = e.longIn(r, p, v[i])
			}
			o.emit(e, o.double, d, v[0], v[1], v[2], opts)
		})
	})
}
