// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build !amd64

package criu

import "runtime"

func makeCall(int, uintptr, []uintptr) error {
	return &Unsupported{Reason: "a program whose daemons have lost their parents, or that has a personality, cannot be restored on " + runtime.GOARCH}
}
