// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package native

import "github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/amd64"

func init() {
	// The sum of the differences of four unsigned bytes, and C.
	addOperation("vabsdiff4.add.u8", func(e *emitter, in *Inst) {
		e.eachWordPart(in.D, func(p int, d amd64.Vec) {
			x, y := e.wordIn(in.A, p, 0), e.wordIn(in.B, p, 1)
			e.emitOp3(amd64.VPMAXUB, 2, x, amd64.Register(y))
			e.emitOp3(amd64.VPMINUB, 3, x, amd64.Register(y))
			e.emitOp3(amd64.VPSUBB, 2, 2, amd64.Register(3))
			e.emitOp3(amd64.VPMADDUBSW, 2, 2, e.tableSource(tableByteOnes))
			e.emitOp3(amd64.VPMADDWD, 2, 2, e.tableSource(tableHalfOnes))
			e.emitOp3(amd64.VPADDD, d, 2, e.wordPart(in.C, p))
		})
	})
}
