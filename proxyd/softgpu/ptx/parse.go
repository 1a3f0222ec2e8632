// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import "github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/syntax"

// Module is a text with checked syntax, scopes and signatures.
type Module = syntax.Module

// SyntaxError is a text that is not PTX, or not valid PTX.
type SyntaxError = syntax.Error

// Parse reads a text and checks its syntax, scopes and signatures. name is used in
// errors. Opcodes are checked when a kernel that reaches them is asked for. The error is
// a *SyntaxError.
func Parse(name, text string) (*Module, error) { return syntax.Parse(name, text) }

// ParseDeclarations is Parse without the bodies of functions: the syntax of a body is checked when a kernel that reaches
// the body is asked for, and Program.Kernel returns the error. ParseDeclarations is for long texts,
// when a program uses few of their kernels.
func ParseDeclarations(name, text string) (*Module, error) {
	return syntax.ParseDeclarations(name, text)
}
