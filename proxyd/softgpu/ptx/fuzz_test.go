// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/memory"
)

// FuzzParse: no text makes the parser, the linker or the lowering panic or hang, and each error is one of their types.
func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.ptx")
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(b))
	}
	f.Add(lineKernel("add.u32 d, a, b;", "u32", "u32", "u32"))
	f.Add(header + ".global .align 8 .u64 x[2][2] = {{1, 2}, {generic(y)+4, 0xFF(y)}};\n.global .u32 y;")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1<<16 {
			t.Skip("large texts only take long")
		}
		m, err := Parse("fuzz", text)
		if err != nil {
			failOnUnknown(t, err)
			if later, err := ParseDeclarations("fuzz", text); err == nil {
				checkKernels(t, later) // an error of a body is found later, and is an error of ours
			}
			return
		}
		compareWithLater(t, m, text)
		p, err := Link(m)
		if err != nil {
			failOnUnknown(t, err)
			return
		}
		if p.Size() > 1<<24 {
			return
		}
		if _, err := p.Place(testGlobals &^ (p.Align() - 1)); err != nil {
			failOnUnknown(t, err)
			return
		}
		for _, err := range p.Check() {
			failOnUnknown(t, err)
		}
	})
}

// patience is a context that is done after it has been asked a few times.
type patience struct {
	context.Context
	left int
}

func (p *patience) Err() error {
	if p.left--; p.left < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// FuzzRun: no kernel accesses memory other than its own, or makes the interpreter panic or hang. Kernels that run too
// long are cancelled.
func FuzzRun(f *testing.F) {
	for _, body := range []string{
		"mov.u32 %r, 1; L: add.u32 %r, %r, 1; bra L;",
		"T: .branchtargets L; L: brx.idx 0, T;",
		"shl.b32 %x1, %t, 2; st.shared.u32 [%x1], %t; bar.sync 0; ld.shared.v4.u32 {%x1, %x2, %x3, %r}, [sm+16];",
		"setp.lt.u32 %p1, %t, 7; @%p1 bra A; shfl.sync.idx.b32 %r, %t, 3, 31, -1; A: vote.sync.ballot.b32 %r, %p1, -1; atom.global.add.u32 %r, [flag], %t;",
		"cvt.rn.f16x2.f32 %r, %f1, %f2; { .local .b8 l[16]; st.local.v2.u32 [l+8], {%t, %r}; } alloca.u64 %rd1, 64; st.local.u32 [%rd1], 1;",
		"ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%x1, %x2}, [%t]; movmatrix.sync.aligned.m8n8.trans.b16 %r, %x1; cp.async.cg.shared.global [%x1], [%out], 16;",
	} {
		f.Add(body, uint8(40))
	}
	f.Fuzz(func(t *testing.T, body string, threads uint8) {
		if len(body) > 1<<12 {
			t.Skip("large texts only take long")
		}
		m, err := Parse("fuzz", perThread(body))
		if err != nil {
			return
		}
		p, err := Link(m)
		if err != nil || p.Size() > 1<<16 || p.Align() > 1<<16 {
			return
		}
		image, err := p.Place(testGlobals)
		if err != nil {
			return
		}
		k, err := p.Kernel("k")
		if err != nil || k.LocalSize > 1<<16 {
			return
		}
		var mem memory.Memory
		for addr, b := range map[uint64][]byte{testGlobals: image, testOut: make([]byte, 4096)} {
			if len(b) == 0 {
				continue
			}
			if err := mem.Map(addr, append(b, make([]byte, 64)...), false); err != nil {
				t.Fatal(err)
			}
		}
		params := make([]byte, 8)
		writeBytes(params, testOut)
		err = k.Launch(&patience{context.Background(), 3}, Config{
			Grid: Dim3{2, 1, 1}, Block: Dim3{uint32(threads)%80 + 1, 1, 1}, Params: params, Memory: &mem, Workers: 1,
		})
		var fault *Fault
		var launch *LaunchError
		if err != nil && !errors.As(err, &fault) && !errors.As(err, &launch) && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
	})
}

func failOnUnknown(t *testing.T, err error) {
	t.Helper()
	var s *SyntaxError
	var r *RefusedError
	var l *LinkError
	if !errors.As(err, &s) && !errors.As(err, &r) && !errors.As(err, &l) {
		t.Fatalf("an error of an unknown kind: %v", err)
	}
}
