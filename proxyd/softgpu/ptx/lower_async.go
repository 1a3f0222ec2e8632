// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"fmt"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/syntax"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/types"
)

// cp.async may copy at any time between its issue and the wait: here cp.async copies at once, and
// commit and wait have nothing to do.

func lowerCp(l *lowerer) {
	if !l.hasModifier("async") {
		l.failSyntax("no such form")
	}
	if l.hasModifier("bulk") {
		l.refuseInstruction("cp.async.bulk and tensor maps are not for targets up to sm_80")
	}
	if l.hasModifier("mbarrier") {
		l.refuseInstruction("mbarrier is not supported")
	}
	switch {
	case l.hasModifier("commit_group"), l.hasModifier("wait_all"):
		l.checkArgs(0)
		return
	case l.hasModifier("wait_group"):
		l.checkArgs(1)
		return
	}
	args := l.in.Args
	if len(args) > 3 && l.hasModifier("L2::cache_hint") {
		args = args[:len(args)-1]
	}
	if len(args) < 3 || len(args) > 5 || args[2].Kind != syntax.ArgInt {
		l.failSyntax("%d operands", len(l.in.Args))
	}
	size := args[2].Num
	if size != 4 && size != 8 && size != 16 {
		l.failSyntax("the size is none of 4, 8 and 16")
	}
	l.loose = true
	x := &ext{}
	all := l.wordConstant(uint32(size))
	n, ignore := all, alwaysFalse
	for _, o := range args[3:] {
		isPred := false
		if o.Kind == syntax.ArgName {
			if _, t, ok := l.namedRegister(o); ok && t == types.Pred {
				isPred = true
			}
		}
		if isPred {
			ignore = l.predicateRef(o)
		} else {
			n = l.operandRef(o, types.U32)
		}
	}
	to, from := l.readAddress(0, types.SharedSpace), l.readAddress(1, types.GlobalSpace)
	x.refs, x.opnds = []ref{to.base, n, ignore}, []opnd{use32, use32, usePred}
	m := l.numberSite(l.emitMicro(opCpAsync, shape{a: use64}, 0, ref(size), from.base, ref(types.GlobalSpace), ref(uint32(to.off))))
	m.imm, m.ext = from.off, x
	if n == all && ignore == alwaysFalse {
		m.key = fmt.Sprintf("cp.async.%d", size/4)
	}
}

func opCpAsync(w *warp, in *inst, m uint32) {
	to, n, ignore := w.u32(in.ext.refs[0]), w.u32(in.ext.refs[1]), w.pred(in.ext.refs[2])
	for ; m != 0; m &= m - 1 {
		i := lowestLane(m)
		dst := w.bytesAt(w.sharedAt(in, to[i]+uint32(in.c), uint32(in.e), i), uint32(in.e))
		size := min(n[i], uint32(in.e))
		if ignore>>i&1 != 0 {
			size = 0
		}
		if size == 0 {
			clear(dst)
			continue
		}
		addr := w.u64(in.a)[i] + in.imm
		if addr&uint64(in.e-1) != 0 {
			w.raiseFault(MisalignedAddress, in, i, addr, "")
		}
		r := w.sites[in.site]
		o := addr - r.Base
		if o >= accessLimit(r.Size, uint64(size)) {
			r = w.anyRange(in, addr, uint64(size), i)
			o = addr - r.Base
		}
		src := r.Bytes[o:][:size]
		clear(dst[copy(dst, src):])
	}
}
