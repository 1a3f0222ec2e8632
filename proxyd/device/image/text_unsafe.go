// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package image

import "unsafe"

// stringOf makes a string of bytes without a copy of them. The caller does not change the bytes any more.
func stringOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
