// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// The image of all kernels: the pieces in ptx/, one after the other, and a NUL.
	.section .rodata
	.global kernels_ptx
kernels_ptx:
	.incbin "ptx/head.ptx"
	.incbin "ptx/math.ptx"
	.incbin "ptx/elements.ptx"
	.incbin "ptx/adam.ptx"
	.incbin "ptx/matrix.ptx"
	.incbin "ptx/norm.ptx"
	.incbin "ptx/rows.ptx"
	.incbin "ptx/columns.ptx"
	.byte 0
	.section .note.GNU-stack, "", @progbits
