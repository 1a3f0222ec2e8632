// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge"
)

// NewServer returns a gRPC server that hands requests which passed the gate to impl. The
// gate's Node is set to Name. The caller serves and stops it. Whoever can reach the port
// can open connections: one that asks nothing for a while is closed.
func NewServer(gate *munge.Gate, impl PreemptdServer) *grpc.Server {
	gate.Node = Name
	opts := append(munge.ServerOptions(),
		grpc.MaxSendMsgSize(maxReply),
		grpc.MaxConcurrentStreams(64), grpc.MaxHeaderListSize(32<<10),
		// A fixed window: what a stranger sends before his credential was read stays small.
		grpc.InitialWindowSize(64<<10), grpc.InitialConnWindowSize(1<<20),
		grpc.ConnectionTimeout(10*time.Second),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle: 5 * time.Minute, Time: deadAfter.Time, Timeout: deadAfter.Timeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: deadAfter.Time / 2}))
	server := grpc.NewServer(opts...)
	gate.Register(server, &Preemptd_ServiceDesc, impl)
	return server
}
