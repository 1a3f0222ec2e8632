// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"context"
	"fmt"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/gemm"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/memory"
)

// gemmKernel is a kernel of package gemm's text: the processor's vector instructions compute what the PTX says, bit for bit.
type gemmKernel struct{ ptxKernel }

// isGemm tells whether texts are those of package gemm.
func isGemm(texts []string) bool { return len(texts) == 1 && texts[0] == gemm.Text }

// replaceKernel returns the kernel that runs in the place of k, which is of a program with these texts: k itself,
// unless package gemm has the kernel.
func replaceKernel(k ptxKernel, texts []string) kernel {
	if isGemm(texts) && gemm.Available() && !k.engine.interpret {
		return gemmKernel{k}
	}
	return k
}

// runLaunch implements kernel.
func (k gemmKernel) runLaunch(ctx context.Context, l *launch) (uint64, error) {
	if l.block != (backend.Dim{X: gemm.Threads, Y: 1, Z: 1}) {
		return k.ptxKernel.runLaunch(ctx, l)
	}
	seen, touched := l.viewMemory()
	done, ok, err := gemm.Run(ctx, gemm.Launch{
		Kernel: k.Name, Grid: [3]uint32{l.grid.X, l.grid.Y, l.grid.Z}, Params: l.params, Memory: seen,
		Workers: l.workers, First: l.done, Paused: l.paused, Issued: l.issued, Touched: touched,
	})
	switch {
	case !ok:
		return k.ptxKernel.runLaunch(ctx, l)
	case err != nil: // the space was closed
		return done, fmt.Errorf("%w: %w", backend.ContextIsDestroyed, err)
	}
	if touched != nil {
		l.seen.addTouched(touched)
	}
	return done, nil
}

// viewMemory returns the memory as the launch sees it, and the collector of the launch's accesses; nil if l.seen is
// nil.
func (l *launch) viewMemory() (*memory.Memory, *memory.TouchedRanges) {
	sees := l.memory.(*memory.Memory)
	if len(l.parts) > 0 {
		parts := make([]memory.Part, len(l.parts))
		for i, x := range l.parts {
			parts[i] = memory.Part(x)
		}
		sees = sees.View(parts)
	}
	if l.seen == nil {
		return sees, nil
	}
	return sees, &memory.TouchedRanges{}
}
