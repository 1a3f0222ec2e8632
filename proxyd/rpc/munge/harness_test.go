// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package munge_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge"
)

const (
	check = "/grpc.health.v1.Health/Check"
	watch = "/grpc.health.v1.Health/Watch"
)

// service is the service behind the credential check in these tests: gRPC's own health service, which
// has a call with a single reply and a call with a stream of replies.
type service struct {
	grpc_health_v1.UnimplementedHealthServer
	hold chan struct{} // if not nil, calls wait for it

	mu      sync.Mutex
	callers []munge.Caller
	asked   []string
}

func (s *service) noteCall(ctx context.Context, asked string) {
	c, ok := munge.CallerOf(ctx)
	if !ok {
		panic("a request without a caller reached the service")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.callers, s.asked = append(s.callers, c), append(s.asked, asked)
}

func (s *service) countCalls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asked)
}

func (s *service) Check(ctx context.Context, req *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	s.noteCall(ctx, req.GetService())
	if s.hold != nil {
		<-s.hold
	}
	if req.GetService() == "fail" {
		return nil, status.Error(codes.NotFound, "no such service: \xff bad text")
	}
	return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}, nil
}

func (s *service) Watch(req *grpc_health_v1.HealthCheckRequest, stream grpc.ServerStreamingServer[grpc_health_v1.HealthCheckResponse]) error {
	s.noteCall(stream.Context(), req.GetService())
	if s.hold != nil {
		<-s.hold
	}
	for i := range 3 {
		if err := stream.Send(&grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_ServingStatus(i + 1)}); err != nil {
			return err
		}
	}
	if req.GetService() == "fail" {
		return status.Error(codes.DataLoss, "half way")
	}
	return nil
}

// startServer starts a server behind a credential check and returns its address.
func startServer(t testing.TB, check *munge.CredentialCheck, s *service) string {
	t.Helper()
	server := grpc.NewServer(check.ServerOptions()...)
	check.Register(server, &grpc_health_v1.Health_ServiceDesc, s)
	return listenAndServe(t, server)
}

func listenAndServe(t testing.TB, server *grpc.Server) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(l)
	t.Cleanup(server.Stop)
	return l.Addr().String()
}

func dialServer(t testing.TB, address, node string, coder munge.Coder) grpc_health_v1.HealthClient {
	t.Helper()
	conn, err := munge.Dial(address, node, "n9", coder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return grpc_health_v1.NewHealthClient(conn)
}

// readStream reads a stream to its end.
func readStream(ctx context.Context, c grpc_health_v1.HealthClient, name string) (int, error) {
	stream, err := c.Watch(ctx, &grpc_health_v1.HealthCheckRequest{Service: name})
	if err != nil {
		return 0, err
	}
	for n := 0; ; n++ {
		if _, err := stream.Recv(); errors.Is(err, io.EOF) {
			return n, nil
		} else if err != nil {
			return n, err
		}
	}
}

// From here on: the means of an attacker, which are the bytes of messages and metadata.

type rawCodec struct{}

func (rawCodec) Name() string { return "raw" }
func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}
func (rawCodec) Unmarshal(b mem.BufferSlice, v any) error {
	*v.(*[]byte) = b.Materialize()
	return nil
}

func rawDial(t testing.TB, address string) *grpc.ClientConn {
	t.Helper()
	cc, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cc.Close() })
	return cc
}

// rawCall sends bytes with these credentials.
func rawCall(ctx context.Context, cc *grpc.ClientConn, method string, request []byte, credentials ...string) error {
	md := metadata.MD{"singularity-credential": credentials}
	var reply []byte
	return cc.Invoke(metadata.NewOutgoingContext(ctx, md), method, &request, &reply)
}

// makeTicket returns a ticket that is made by hand, as an attacker would make it.
func makeTicket(method, to string, request []byte, change func(map[string]any)) []byte {
	digest := sha256.Sum256(request)
	nonce := sha256.Sum256(fmt.Appendf(nil, "%s %s %d", method, to, counter.next()))
	t := map[string]any{
		"version": 1, "method": method, "to": to, "from": "n9", "nonce": nonce[:16],
		"key": make([]byte, 32), "size": len(request), "digest": digest[:],
	}
	if change != nil {
		change(t)
	}
	b, err := json.Marshal(t)
	if err != nil {
		panic(err)
	}
	return b
}

var counter count

type count struct {
	mu sync.Mutex
	n  int
}

func (c *count) next() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	return c.n
}

func requestFor(name string) []byte {
	b, err := proto.Marshal(&grpc_health_v1.HealthCheckRequest{Service: name})
	if err != nil {
		panic(err)
	}
	return b
}
