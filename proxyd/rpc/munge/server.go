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

// Sizes of a connection's windows and buffers. They are fixed: windows that grow would let strangers send more.
const (
	window     = 256 << 10 // as a piece of a request
	readBuffer = 4 << 10
)

// ServerLimits are options that limit the memory and time that connections cost a daemon: every
// program that can reach the port can open some, and a connection without requests is closed.
// maxReply bounds a message of a reply.
func ServerLimits(maxReply int) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxSendMsgSize(maxReply),
		grpc.MaxConcurrentStreams(64), grpc.MaxHeaderListSize(16 << 10),
		grpc.StaticStreamWindowSize(window), grpc.StaticConnWindowSize(window),
		grpc.ReadBufferSize(readBuffer), grpc.SharedWriteBuffer(true),
		grpc.ConnectionTimeout(10 * time.Second),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle: 5 * time.Minute, Time: KeepAlive.Time, Timeout: KeepAlive.Timeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: KeepAlive.Time / 2}),
	}
}
