// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package pages uses the kernel's control over pages of this process, for the memory of software GPUs.
//
//	Watcher  tells which pages were written                          watcher_unsafe.go
//	Pool     holds blocks that several parts of memory show,         pool.go pool_unsafe.go
//	         each with copies of its own of the pages that it writes
package pages

// Size is the size of a page.
const Size = 4096
