// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build !amd64

package native

import "errors"

func callCode(_ *State, _, _ uintptr) { panic("native: there is no machine code for this processor") }

// Check says why there cannot be machine code here.
func Check() error { return errors.New("there is machine code for x86-64 processors only") }
