// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package sdktest tries a policy, and makes snapshots to try one with: Cluster makes a busy
// cluster of any size, Random one where everything happens that the contract allows. Run is
// what every policy passes, in whatever language it is written:
//
//	func TestContract(t *testing.T) { sdktest.Run(t, "/usr/local/bin/sing-policy-mine") }
package sdktest
