// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"google.golang.org/grpc"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge"
)

// NewServer returns a gRPC server that hands requests which passed the gate to impl. The
// gate's Node is set to Name. The caller serves and stops it.
func NewServer(gate *munge.CredentialCheck, impl PreemptdServer) *grpc.Server {
	gate.Node = Name
	server := grpc.NewServer(append(gate.ServerOptions(), munge.ServerLimits(maxReply)...)...)
	gate.Register(server, &Preemptd_ServiceDesc, impl)
	return server
}
