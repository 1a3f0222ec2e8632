// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build !amd64

package panel

// Available is false: matrices are multiplied element by element.
const Available = false

func addProductsF32(_ *uint32, _ int, _, _ *uint32, _ int) {}

func addProductsS32(_ *uint32, _ int, _, _ *uint32, _ int) {}
