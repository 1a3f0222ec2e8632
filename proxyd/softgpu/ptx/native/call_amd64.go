// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"errors"
	"sync"

	"golang.org/x/sys/cpu"
)

// callCode runs machine code: setup, which loads registers from s, and goes to target. It returns when the code does.
//
//go:noescape
func callCode(s *State, setup, target uintptr)

// Check says why there cannot be machine code here: the processor does not have the vector instructions, or the system does
// not let memory become executable. It is nil if there can be.
func Check() error { return checked() }

var checked = sync.OnceValue(func() error {
	x := &cpu.X86
	if !x.HasAVX512F || !x.HasAVX512DQ || !x.HasAVX512BW || !x.HasAVX512VL || !x.HasAVX512CD || !x.HasAVX512VPOPCNTDQ || !x.HasBMI1 || !x.HasFMA {
		return errors.New("this processor does not have AVX-512 (F, DQ, BW, VL, CD, VPOPCNTDQ)")
	}
	_, err := newText([]byte{0xc3})
	return err
})
