// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"cmp"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/kind"
)

// checkReason returns the reason of a checkpoint, by default "asked".
func checkReason(s string) (string, error) {
	if err := kind.CheckReason(s); err != nil {
		return "", rpc.Errorf(rpc.ErrInvalid, "%v", err)
	}
	return cmp.Or(s, "asked"), nil
}

// checkCall checks the job of a call; the rest is the conductor's.
func checkCall(req *rpc.CallRequest) error { return rpc.CheckJob(req.GetJob()) }

func checkGC(req *rpc.GCRequest) error {
	if age := req.GetOlderThan(); age != nil {
		if !age.IsValid() || age.AsDuration() < 0 {
			return rpc.Errorf(rpc.ErrInvalid, "gc: age %s: want none or a positive one", age)
		}
	}
	if req.Keep != nil && req.GetKeep() == 0 {
		return rpc.Errorf(rpc.ErrInvalid, "gc: keep 0: want at least 1")
	}
	return nil
}
