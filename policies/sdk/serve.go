// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"context"
	"os"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk/policypb"
)

// Policy decides. A Policy gets a single call at a time, and must not rely on memory of earlier calls: its process
// may be ended and started again between any two calls.
type Policy interface {
	// Describe returns the policy's name and version. It may be called at any time.
	Describe() Description
	// Configure takes the settings, a JSON object or an empty text; Settings reads such an object strictly. Configure is
	// called once, before the first Decide. People see an error as it is.
	Configure(settings []byte) error
	// Decide looks at the snapshot, and must not change it. When ctx is done, the answer is not used any more, and soon
	// after the process is killed. People see an error, and no intent is carried out.
	Decide(ctx context.Context, s *Snapshot) ([]Intent, error)
}

// Description is a policy's name, version and purpose.
type Description struct {
	Name    string // "tiers"
	Version string
	Summary string // a line for people
}

// Handshake is how preemptd and a policy recognise each other. A policy that was made for
// another version of the contract is refused by the number, before anything is asked.
var Handshake = plugin.HandshakeConfig{
	ProtocolVersion:  1,
	MagicCookieKey:   "SINGULARITY_SLURM_POLICY",
	MagicCookieValue: "5f1b1c52-snapshots-in-intents-out",
}

// ProgramPrefix begins the name of a policy's program: the policy NAME is sing-policy-NAME.
const ProgramPrefix = "sing-policy-"

// PluginName is go-plugin's name of a policy's only service.
const PluginName = "policy"

// The largest messages: of 10 000 nodes and 50 000 jobs, a snapshot takes 6 MB and an intent
// for each job 8 MB.
const (
	maxSnapshot = 256 << 20
	maxDecision = 32 << 20
)

// Serve is the main of a policy: it answers preemptd until preemptd ends, and does not return. The policy's standard
// error goes to preemptd's log.
func Serve(p Policy) {
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: Handshake,
		Plugins:         plugin.PluginSet{PluginName: &Plugin{Policy: p}},
		Logger:          hclog.New(&hclog.LoggerOptions{Level: hclog.Error, Output: os.Stderr}),
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(opts, grpc.MaxRecvMsgSize(maxSnapshot), grpc.MaxSendMsgSize(maxDecision))...)
		},
	})
}

// Plugin is both ends of a policy's connection, for go-plugin.
type Plugin struct {
	plugin.NetRPCUnsupportedPlugin
	Policy Policy // on the policy's side only
}

// GRPCServer puts the policy on a server.
func (p *Plugin) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	policypb.RegisterPolicyServer(s, &server{policy: p.Policy})
	return nil
}

// GRPCClient returns a *Client.
func (p *Plugin) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return &Client{policypb.NewPolicyClient(conn)}, nil
}

// server is a Policy as the contract has it.
type server struct {
	policypb.UnimplementedPolicyServer
	policy Policy
}

func (s *server) Describe(context.Context, *policypb.DescribeRequest) (*policypb.DescribeReply, error) {
	d := s.policy.Describe()
	return &policypb.DescribeReply{Name: d.Name, Version: d.Version, Summary: d.Summary}, nil
}

func (s *server) Configure(_ context.Context, r *policypb.ConfigureRequest) (*policypb.ConfigureReply, error) {
	if err := s.policy.Configure(r.GetSettings()); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return &policypb.ConfigureReply{}, nil
}

func (s *server) Decide(ctx context.Context, pb *policypb.Snapshot) (*policypb.Decision, error) {
	snapshot, err := Decode(pb)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	intents, err := s.policy.Decide(ctx, snapshot)
	if err != nil {
		return nil, status.Error(codes.Unknown, err.Error())
	}
	return EncodeIntents(intents), nil
}

// Client asks a policy in another process. Its calls last as long as their contexts.
type Client struct{ pb policypb.PolicyClient }

// Describe asks for the policy's name and version.
func (c *Client) Describe(ctx context.Context) (Description, error) {
	d, err := c.pb.Describe(ctx, &policypb.DescribeRequest{})
	return Description{Name: d.GetName(), Version: d.GetVersion(), Summary: d.GetSummary()}, err
}

// Configure gives the policy its settings.
func (c *Client) Configure(ctx context.Context, settings []byte) error {
	_, err := c.pb.Configure(ctx, &policypb.ConfigureRequest{Settings: settings})
	return err
}

// Decide asks for intents. The snapshot is encoded by the caller: a single time for several
// policies.
func (c *Client) Decide(ctx context.Context, pb *policypb.Snapshot) ([]Intent, error) {
	d, err := c.pb.Decide(ctx, pb, grpc.MaxCallSendMsgSize(maxSnapshot), grpc.MaxCallRecvMsgSize(maxDecision))
	if err != nil {
		return nil, err
	}
	return DecodeIntents(d)
}
