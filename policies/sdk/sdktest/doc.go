// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package sdktest tries a policy, and makes snapshots to try a policy with: Cluster makes a busy
// cluster of any size, Random a cluster where everything happens that the contract allows, and
// SmallCluster a cluster for a decision that a test writes out. Every policy, of any programming
// language, must pass Run:
//
//	func TestContract(t *testing.T) { sdktest.Run(t, "/usr/local/bin/sing-policy-mine") }
package sdktest
