// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"google.golang.org/grpc"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge"
)

// NewServer returns a gRPC server that hands requests which passed the gate to impl. The
// caller serves and stops it.
func NewServer(gate *munge.CredentialCheck, impl ProxydServer) *grpc.Server {
	server := grpc.NewServer(append(gate.ServerOptions(), munge.ServerLimits(maxMessage)...)...)
	gate.Register(server, &Proxyd_ServiceDesc, impl)
	return server
}
