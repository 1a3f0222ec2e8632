// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build !cgo

package inventory

import "errors"

// ErrNone says that there is no management library, or no driver below.
var ErrNone = errors.New("no NVIDIA driver")

// Node is empty in a program that cannot open libraries.
type Node struct{}

// Read fails: this program was built without cgo.
func Read() (*Node, error) {
	return nil, errors.New("this proxyd was built without cgo; real devices need proxyd-cuda")
}
