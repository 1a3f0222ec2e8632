// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package munge

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

// KeepAlive has the times after which a silent peer counts as dead: a power cut closes no
// connection. Clients pass KeepAlive to Dial; ServerLimits has the same for servers.
var KeepAlive = keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 10 * time.Second}

// ServerOptions are the options that a grpc.Server must have to Register behind a CredentialCheck. No more of
// a request is read than Limits and its ticket say.
func ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ForceServerCodecV2(frameCodec{}), grpc.MaxRecvMsgSize(piece)}
}

// ServerLimits are options that limit the memory and time that connections cost a daemon: every
// program that can reach the port can open some, and a connection without requests is closed.
// maxReply bounds a message of a reply. The windows of a stream and of a connection are fixed, so
// that only few bytes of a client are held before its credential was read.
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
