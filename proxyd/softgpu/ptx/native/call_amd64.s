// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#include "textflag.h"

// The code that is called uses neither the stack, but for calls of its own routines, nor R14 and BP, in which Go
// keeps the goroutine and the frame. No pointer of Go's is on its stack, and it calls nothing of Go's: to the runtime it is
// a function that cannot be preempted. The frame is room for the return addresses.

// func callCode(s *State, setup, target uintptr)
TEXT ·callCode(SB), NOSPLIT, $32-24
	MOVQ s+0(FP), DI
	MOVQ setup+8(FP), AX
	MOVQ target+16(FP), R15
	CALL AX
	VZEROUPPER
	RET
