// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"unicode"
	"unicode/utf8"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// maxReason limits a reason, so that the reason fits into a line of a table.
const maxReason = 200

// checkReason returns the reason of a checkpoint, by default "asked". Control characters are
// refused, because people see the text on terminals.
func checkReason(s string) (string, error) {
	if s == "" {
		return "asked", nil
	}
	if len(s) > maxReason || !utf8.ValidString(s) {
		return "", rpc.Errorf(rpc.ErrInvalid, "reason: want text of at most %d bytes", maxReason)
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return "", rpc.Errorf(rpc.ErrInvalid, "reason: want one line without control characters, found %q", r)
		}
	}
	return s, nil
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
