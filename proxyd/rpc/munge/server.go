// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package munge

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

// KeepAlive says when a silent peer counts as dead: a power cut closes no connection. Clients
// pass KeepAlive to Dial; ServerLimits has the same for servers.
var KeepAlive = keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 10 * time.Second}

// ServerOptions are what a grpc.Server must be made with to Register behind a Gate. They bound
// what is read: of a request, no more than Limits and its ticket say.
func ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ForceServerCodecV2(frameCodec{}), grpc.MaxRecvMsgSize(piece)}
}

// ServerLimits are options that bound what a daemon spends on connections: every program that can
// reach the port can open some, and a connection without requests is closed. maxReply
// bounds a message of a reply. The windows of a stream and of a connection are fixed, so that
// what a client sends before its credential was read stays small.
func ServerLimits(maxReply int, streamWindow, connWindow int32) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxSendMsgSize(maxReply),
		grpc.MaxConcurrentStreams(64), grpc.MaxHeaderListSize(32 << 10),
		grpc.InitialWindowSize(streamWindow), grpc.InitialConnWindowSize(connWindow),
		grpc.ConnectionTimeout(10 * time.Second),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle: 5 * time.Minute, Time: KeepAlive.Time, Timeout: KeepAlive.Timeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: KeepAlive.Time / 2}),
	}
}
