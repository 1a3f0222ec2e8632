// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cuda

import "errors"

// Config configures a backend.
type Config struct {
	Library string // of the driver; "": libcuda.so.1
	NCCL    string // its library; "": libnccl.so.2
	// Spaces is how many spaces a program will have, if these are more than the machine's devices: their addresses are
	// taken at the beginning, too.
	Spaces int
	// VariablesMayMove lets a restored module's variables lie elsewhere than before, where the driver has put them.
	// This is right only if no memory of the program holds the address of a variable.
	VariablesMayMove bool
}

// Errors of Open.
var (
	// ErrAddresses: the addresses that spaces need are taken.
	ErrAddresses = errors.New("addresses for devices' memory are not free in this process")
	// ErrNoCgo: this program was built without C, so it cannot open libraries.
	ErrNoCgo = errors.New("this proxyd was built without cgo; real devices need proxyd-cuda")
)
